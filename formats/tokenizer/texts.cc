#include "formats/tokenizer/texts.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <optional>

#include "base/text.h"
#include "base/values/json.h"
#include "formats/format.h"
#include "formats/mapping/tokenizer/chat_template.h"
#include "formats/summary/fields.h"
#include "formats/summary/small_files.h"

namespace weightfs::tokenizer {
namespace {

using Texts = std::vector<ModelText>;

constexpr uint64_t kMaxText = uint64_t{4} << 20;  // bytes
constexpr size_t kMaxTexts = 128;
constexpr std::string_view kTemplateKey = "tokenizer.chat_template";
constexpr const char* kDefault = "default";

bool has_layers(const Model& model) { return traits_of(model.format).has_prompt_layers; }

Error too_long(std::string_view what) {
  return {Code::unsupported, fmt::format("{} has more than 4 MiB", printable(what))};
}

Result<std::string> whole_text(const Source& file, std::string_view path) {
  if (file.size() > kMaxText) return failure(too_long(path));
  return read_text(file, 0, file.size());
}

// Whether a path is that of a layer called `stem`, or of a further one: "template", "template-fim", "license-2".
bool is_layer(std::string_view path, std::string_view stem) {
  return path == stem || (path.starts_with(stem) && path.substr(stem.size()).starts_with('-'));
}

Result<void> add_layers(const Model& model, std::string_view stem, std::string_view first_name, Texts& out) {
  for (const Part& part : model.parts) {
    if (!is_layer(part.path, stem) || out.size() == kMaxTexts) continue;
    const SourcePtr file = TRY(part.source.get());
    const std::string_view rest = std::string_view(part.path).substr(stem.size());
    std::string text = TRY(whole_text(*file, part.path));
    out.push_back({.name = std::string(rest.empty() ? first_name : rest.substr(1)),
                   .stated_in = part.path,
                   .text = std::move(text),
                   .is_go = true});
  }
  return {};
}

// A text that is too long for metadata.json is a document of JSON.
Result<std::string> text_of_document(const Model& model, std::string_view path) {
  const auto found = std::ranges::find(model.documents, path, &Document::path);
  if (found == model.documents.end()) return std::string();
  const SourcePtr json = TRY(found->source.get());
  constexpr uint64_t kMaxEscaped = 6;  // bytes of JSON for one of the text
  if (json->size() > kMaxEscaped * kMaxText) return failure(too_long(path));
  const Value value = TRY(parse_json(*json, 0, json->size()));
  const auto* const text = std::get_if<std::string>(&value);
  return text == nullptr ? std::string() : *text;
}

// The name in a key of a chat template: "" of the default. Nothing for tokenizer.chat_templates, which is a list, and
// for other keys.
std::optional<std::string_view> name_in(std::string_view key) {
  if (!key.starts_with(kTemplateKey)) return std::nullopt;
  const std::string_view rest = key.substr(kTemplateKey.size());
  if (rest.empty()) return rest;
  return rest.size() > 1 && rest.front() == '.' ? std::optional(rest.substr(1)) : std::nullopt;
}

// The entries of the keys of a GGUF that are chat templates.
std::vector<const Map::Entry*> template_keys(const Model& model) {
  std::vector<const Map::Entry*> out;
  const Map* const keys = summary::gguf_keys_of(model);
  if (keys == nullptr) return out;
  for (const Map::Entry& entry : *keys) {
    const bool is_text = std::holds_alternative<std::string>(entry.second) || std::holds_alternative<Map>(entry.second);
    if (is_text && name_in(entry.first) && out.size() < kMaxTexts) out.push_back(&entry);
  }
  std::stable_partition(out.begin(), out.end(), [](const Map::Entry* entry) { return entry->first == kTemplateKey; });
  return out;
}

Result<std::string> text_of_key(const Model& model, const Map::Entry& entry) {
  const auto* const note = std::get_if<Map>(&entry.second);
  std::string text =
      note == nullptr ? std::get<std::string>(entry.second) : TRY(text_of_document(model, text_in(*note, "path")));
  if (text.size() > kMaxText) return failure(too_long(entry.first));
  return text;
}

Result<void> add_keys(const Model& model, std::string_view first_name, Texts& out) {
  for (const Map::Entry* const entry : template_keys(model)) {
    const std::string_view name = *name_in(entry->first);
    std::string text = TRY(text_of_key(model, *entry));
    out.push_back(
        {.name = std::string(name.empty() ? first_name : name), .stated_in = entry->first, .text = std::move(text)});
  }
  return {};
}

Result<void> add_files(const Model& model, Texts& out) {
  summary::SmallFiles files(model);
  const Map* const config = TRY(files.checked_object("tokenizer_config.json"));
  for (mapping::ChatTemplate& each : TRY(mapping::read_chat_templates(model, files, config))) {
    const auto same = std::ranges::find(out, each.name, &ModelText::name);  // Python keeps the last of a name
    ModelText made{.name = each.name, .stated_in = std::move(each.file), .text = std::move(each.text)};
    if (same != out.end())
      *same = std::move(made);
    else
      out.push_back(std::move(made));
  }
  std::stable_partition(out.begin(), out.end(), [](const ModelText& text) { return text.name == kDefault; });
  return {};
}

// A name that is too long for a file has its number instead, as no escaped name has it.
std::string path_of_template(std::string_view name, size_t place) {
  constexpr size_t kMaxName = 200;
  if (name.empty() || name == kDefault) return fmt::format("metadata/{}.jinja", kTemplateKey);
  const std::string escaped = percent_escaped(name);
  if (escaped.size() > kMaxName) return fmt::format("metadata/{}.%{}.jinja", kTemplateKey, place);
  return fmt::format("metadata/{}.{}.jinja", kTemplateKey, escaped);
}

Result<Texts> chat_templates(const Model& model) {
  Texts out;
  if (has_layers(model)) TRY_VOID(add_layers(model, "template", kDefault, out));
  TRY_VOID(add_keys(model, out.empty() ? kDefault : "gguf", out));
  if (out.empty()) TRY_VOID(add_files(model, out));
  return out;
}

// "temperature                    0.6"; a list has a line for each item.
std::string lines_of(const Map& parameters) {
  std::string out;
  const auto add = [&](std::string_view name, const Value& value) {
    if (!std::holds_alternative<std::nullptr_t>(value)) out += fmt::format("{:<30} {}\n", name, to_json_line(value));
  };
  for (const auto& [name, value] : parameters) {
    const auto* const list = std::get_if<List>(&value);
    if (list == nullptr) add(name, value);
    for (const Value& item : list == nullptr ? List() : *list) add(name, item);
  }
  return out;
}

Result<Texts> parameters_of(const Model& model) {
  Texts out;
  if (has_layers(model)) {
    if (const auto* const parameters = model.metadata.find_as<Map>("parameters"))
      out.push_back({.name = "parameters", .stated_in = "params.json", .text = lines_of(*parameters)});
    return out;
  }
  summary::SmallFiles files(model);
  constexpr const char* kFile = "generation_config.json";
  if (const Map* const parameters = TRY(files.checked_object(kFile)))
    out.push_back({.name = "parameters", .stated_in = kFile, .text = lines_of(*parameters)});
  return out;
}

Result<Texts> licences_of(const Model& model) {
  Texts out;
  if (has_layers(model)) TRY_VOID(add_layers(model, "license", "licence", out));
  if (!out.empty()) return out;
  summary::SmallFiles files(model);
  for (const char* const path : {"LICENSE", "LICENSE.txt", "LICENSE.md", "LICENCE", "COPYING"}) {
    const SourcePtr file = TRY(files.checked_open(path));
    if (file == nullptr) continue;
    std::string text = TRY(whole_text(*file, path));
    out.push_back({.name = "licence", .stated_in = path, .text = std::move(text)});
    return out;
  }
  if (const std::string_view name = text_in(model.common, "license"); !name.empty())
    out.push_back({.name = "licence", .stated_in = "metadata.json", .text = std::string(name)});
  return out;
}

}  // namespace

Result<Texts> texts_of(const Model& model, TextKind kind) {
  Texts out;
  switch (kind) {
    case TextKind::chat_template:
      return chat_templates(model);
    case TextKind::parameters:
      return parameters_of(model);
    case TextKind::licence:
      return licences_of(model);
    case TextKind::system:
      break;
  }
  if (has_layers(model)) TRY_VOID(add_layers(model, "system", "system", out));
  return out;
}

std::vector<Document> template_documents(const ModelPtr& model) {
  std::vector<Document> out;
  for (const Map::Entry* const entry : template_keys(*model))
    out.push_back(
        {path_of_template(*name_in(entry->first), out.size()), Later<SourcePtr>([model, entry]() -> Result<SourcePtr> {
           return in_memory(TRY(text_of_key(*model, *entry)));
         })});
  return out;
}

bool may_have_template_files(const Model& model) {
  constexpr auto kNames =
      std::to_array<std::string_view>({"tokenizer_config.json", "chat_template.jinja", "chat_template.json"});
  const auto is_one = [&](const Part& part) { return std::ranges::find(kNames, part.path) != kNames.end(); };
  return model.beside != nullptr && template_keys(model).empty() && std::ranges::any_of(model.parts, is_one);
}

Result<std::vector<Document>> documents_of_template_files(const Model& model) {
  Texts texts;
  std::vector<Document> out;
  if (const auto read = add_files(model, texts); !read) {
    if (is_permanent(read.error())) return out;
    return tl::unexpected(read.error());
  }
  for (ModelText& each : texts)
    out.push_back({path_of_template(each.name, out.size()), Later<SourcePtr>::of(in_memory(std::move(each.text)))});
  return out;
}

}  // namespace weightfs::tokenizer
