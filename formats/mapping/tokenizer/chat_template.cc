#include "formats/mapping/tokenizer/chat_template.h"

#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "base/text.h"

namespace weightfs::mapping {
namespace {

constexpr uint64_t kMaxTemplate = uint64_t{4} << 20;  // bytes
constexpr size_t kMaxTemplates = 100;
constexpr std::string_view kMore = "additional_chat_templates/";
constexpr std::string_view kJinja = ".jinja";
constexpr const char* kConfig = "tokenizer_config.json";
constexpr const char* kJinjaFile = "chat_template.jinja";
constexpr const char* kJsonFile = "chat_template.json";

// Python reads a text with each line end as a line feed.
std::string with_line_feeds(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\r' && i + 1 < text.size() && text[i + 1] == '\n') continue;
    out += text[i] == '\r' ? '\n' : text[i];
  }
  return out;
}

Result<std::string> read_template(const Source& file, std::string_view path) {
  if (file.size() > kMaxTemplate)
    return failure(Code::unsupported, fmt::format("{} has more than 4 MiB", printable(path)));
  const std::string text = TRY(read_text(file, 0, file.size()));
  if (!is_utf8(text)) return failure(Code::corrupt, fmt::format("{} is not UTF-8", printable(path)));
  return with_line_feeds(text);
}

// The files additional_chat_templates/NAME.jinja, sorted by name.
std::vector<std::string> more_paths(const Model& model) {
  std::vector<std::string> paths;
  for (const Part& part : model.parts) {
    const std::string_view path = part.path;
    if (path.starts_with(kMore) && path.ends_with(kJinja) && path.find('/', kMore.size()) == path.npos &&
        paths.size() < kMaxTemplates)
      paths.push_back(part.path);
  }
  std::ranges::sort(paths);
  return paths;
}

Result<void> add_jinja(const Model& model, summary::SmallFiles& files, const Source& file,
                       std::vector<ChatTemplate>& out) {
  std::string text = TRY(read_template(file, kJinjaFile));
  out.push_back({"default", std::move(text), kJinjaFile});
  for (const std::string& path : more_paths(model)) {
    const SourcePtr more = TRY(files.checked_open(path));
    if (more == nullptr) continue;
    const std::string name = path.substr(kMore.size(), path.size() - kMore.size() - kJinja.size());
    text = TRY(read_template(*more, path));
    out.push_back({name, std::move(text), path});
  }
  return {};
}

void add_stated(const Value& stated, const std::string& file, std::vector<ChatTemplate>& out) {
  if (const auto* const text = std::get_if<std::string>(&stated)) out.push_back({"default", *text, file});
  const auto* const list = std::get_if<List>(&stated);
  if (list == nullptr) return;
  for (const Value& each : *list) {
    const auto* const choice = std::get_if<Map>(&each);
    const auto* const text = choice == nullptr ? nullptr : choice->find_as<std::string>("template");
    if (text != nullptr && out.size() < kMaxTemplates)
      out.push_back({std::string(text_in(*choice, "name")), *text, file});
  }
}

std::string name_in_key(std::string_view name) {
  std::string out;
  for (size_t at = 0; at < name.size(); at += std::max<size_t>(1, utf8_sequence(name.substr(at)))) {
    const char c = name[at];
    const bool is_plain = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
    out += is_plain ? c : '_';
  }
  return out;
}

void add_keys(const std::vector<ChatTemplate>& templates, Keys& keys) {
  const ChatTemplate* by_default = nullptr;
  std::vector<std::string> names;
  for (const ChatTemplate& each : templates) {
    const std::string name = name_in_key(each.name);
    if (name == "default") by_default = &each;
    if (name.empty() || name == "default") continue;
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
    keys.text("tokenizer.chat_template." + name, each.text);
  }
  keys.texts("tokenizer.chat_templates", names);
  if (by_default != nullptr) keys.text("tokenizer.chat_template", by_default->text);
}

}  // namespace

Result<std::vector<ChatTemplate>> read_chat_templates(const Model& model, summary::SmallFiles& files,
                                                      const Map* tokenizer_config) {
  std::vector<ChatTemplate> templates;
  const Value* const stated = tokenizer_config == nullptr ? nullptr : tokenizer_config->find("chat_template");
  if (stated != nullptr) {
    add_stated(*stated, kConfig, templates);
  } else if (const SourcePtr jinja = TRY(files.checked_open(kJinjaFile))) {
    TRY_VOID(add_jinja(model, files, *jinja, templates));
  } else if (const Map* const json = TRY(files.checked_object(kJsonFile))) {
    if (const Value* const text = json->find("chat_template")) add_stated(*text, kJsonFile, templates);
  }
  return templates;
}

Result<void> add_chat_template(Repository& repository, const Map& tokenizer_config, Keys& keys) {
  add_keys(TRY(read_chat_templates(repository.model(), repository.files(), &tokenizer_config)), keys);
  return {};
}

}  // namespace weightfs::mapping
