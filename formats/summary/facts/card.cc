#include "formats/summary/facts/card.h"

#include <algorithm>
#include <array>
#include <vector>

#include "base/text.h"
#include "formats/summary/facts/front_matter.h"
#include "formats/summary/fields.h"

namespace weightfs::summary {
namespace {

constexpr uint64_t kTokenizerHead = 256 * 1024;
constexpr uint64_t kMaxTemplate = 1 << 20;
constexpr size_t kMaxItem = 200;
constexpr size_t kMaxLicenceLine = 80;

// Without the blanks at the beginning: those at the end would be looked at again for each text.
std::string_view without_blanks(std::string_view text) {
  return text.substr(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
}

// The kind of a tokenizer.json: the type of its object `model`, which is found without reading the vocabulary.
std::string tokenizer_kind(std::string_view json) {
  static constexpr std::array<std::string_view, 4> kKinds = {"BPE", "WordPiece", "Unigram", "WordLevel"};
  constexpr std::string_view kModel = "\"model\"";
  for (size_t at = json.find(kModel); at != json.npos; at = json.find(kModel, at + 1)) {
    std::string_view rest = without_blanks(json.substr(at + kModel.size()));
    if (!rest.starts_with(':')) continue;
    rest = without_blanks(rest.substr(1));
    if (!rest.starts_with('{')) continue;
    const size_t type = rest.find("\"type\"");
    const size_t begin = type == rest.npos ? type : rest.find('"', type + 6);
    const size_t end = begin == rest.npos ? begin : rest.find('"', begin + 1);
    const std::string_view kind = end == rest.npos ? "" : rest.substr(begin + 1, end - begin - 1);
    if (std::ranges::find(kKinds, kind) != kKinds.end()) return std::string(kind);
    return rest.find("\"merges\"") == rest.npos ? "" : "BPE";
  }
  return "";
}

void describe_tokenizer(SmallFiles& files, Summary& out) {
  if (!out.tokenizer.empty()) return;
  // A tokenizer.json may have 30 MB; its model is described before its vocabulary.
  out.tokenizer = tokenizer_kind(files.head("tokenizer.json", kTokenizerHead, SmallFiles::Bytes::unverified));
  if (!out.tokenizer.empty()) return;
  if (files.has("tokenizer.model"))
    out.tokenizer = "SentencePiece";
  else if (files.has("vocab.txt"))
    out.tokenizer = "WordPiece";
  else if (files.has("vocab.json") && files.has("merges.txt"))
    out.tokenizer = "BPE";
  else if (files.has("tekken.json") || files.has("tokenizer.tiktoken") || files.has("qwen.tiktoken"))
    out.tokenizer = "tiktoken BPE";
}

void add_template(std::string name, const std::string* text, Summary& out) {
  out.has_chat_template = true;
  if (text != nullptr) describe_template(*text, out);
  out.template_has_tools |= name == "tool_use";
  if (!name.empty() && out.chat_template_names.size() < kMaxTemplateNames)
    out.chat_template_names.push_back(std::move(name));
}

void describe_templates(SmallFiles& files, Summary& out) {
  const Map* const tokenizer = files.object("tokenizer_config.json");
  if (tokenizer != nullptr) {
    if (!out.has_chat_template) out.has_chat_template = false;
    if (const auto* const text = tokenizer->find_as<std::string>("chat_template")) add_template("", text, out);
    if (const auto* const list = tokenizer->find_as<List>("chat_template"))
      for (const Value& one : *list)
        if (const auto* const entry = std::get_if<Map>(&one))
          add_template(std::string(text_in(*entry, "name")).substr(0, kMaxItem),
                       entry->find_as<std::string>("template"), out);
  }
  if (files.has("chat_template.jinja")) {
    const std::string text = files.head("chat_template.jinja", kMaxTemplate);
    add_template("", &text, out);
  }
  if (const Map* const object = files.object("chat_template.json"))
    add_template("", object->find_as<std::string>("chat_template"), out);
  if (files.has_below("additional_chat_templates/")) add_template("", nullptr, out);
}

void describe_generation(SmallFiles& files, Summary& out) {
  const Map* const object = files.object("generation_config.json");
  if (object == nullptr || !out.generation.empty()) return;
  for (const char* const name :
       {"temperature", "top_p", "top_k", "min_p", "repetition_penalty", "max_new_tokens", "do_sample"}) {
    const Value* const value = object->find(name);
    if (value == nullptr || std::holds_alternative<std::nullptr_t>(*value)) continue;
    if (!std::holds_alternative<List>(*value) && !std::holds_alternative<Map>(*value) &&
        !std::holds_alternative<std::string>(*value))
      out.generation.append(name, *value);
  }
}

}  // namespace

void describe_template(std::string_view text, Summary& out) {
  out.template_has_tools |= text.find("tools") != text.npos || text.find(".Tools") != text.npos;
  out.template_has_thinking |= text.find("enable_thinking") != text.npos || text.find("<think>") != text.npos;
}

bool is_repository_name(std::string_view text) {
  const size_t slash = text.find('/');
  const auto is_plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' ||
           c == '.';
  };
  return slash != text.npos && slash > 0 && slash + 1 < text.size() && text.find('/', slash + 1) == text.npos &&
         text[0] != '.' && std::ranges::all_of(text, [&](char c) { return is_plain(c) || c == '/'; });
}

std::string repository_in(std::string_view url) {
  while (url.ends_with('/')) url.remove_suffix(1);
  const size_t last = url.rfind('/');
  const size_t second = last == url.npos || last == 0 ? url.npos : url.rfind('/', last - 1);
  if (second == url.npos) return is_repository_name(url) ? std::string(url) : "";
  const std::string_view name = url.substr(second + 1);
  return is_repository_name(name) ? std::string(name) : "";
}

void describe_card(std::string_view readme, Summary& out) {
  const auto card = front_matter(readme);
  const auto items = [&](std::string_view key) {
    const auto found = card.find(key);
    return found == card.end() ? std::vector<std::string>() : found->second;
  };
  const auto first = [&](std::string_view key) {
    const std::vector<std::string> all = items(key);
    return all.empty() ? std::string() : all.front();
  };
  if (out.license.empty()) {
    out.license = first("license");
    if (const std::string name = first("license_name"); out.license == "other" && !name.empty()) out.license = name;
  }
  if (out.base_models.empty()) out.base_models = items("base_model");
  if (out.tags.empty()) out.tags = items("tags");
  if (out.languages.empty()) out.languages = items("language");
}

std::string instance_prompt(SmallFiles& files) {
  const auto card = front_matter(files.head("README.md", kMaxFrontMatter));
  const auto found = card.find("instance_prompt");
  return found == card.end() || found->second.empty() ? "" : found->second.front();
}

void describe_texts(SmallFiles& files, Summary& out) {
  describe_tokenizer(files, out);
  describe_templates(files, out);
  describe_generation(files, out);
  const std::string readme = files.head("README.md", kMaxFrontMatter);
  describe_card(readme, out);
  if (!out.license.empty() || !readme.empty()) return;
  std::string_view license = "";
  const std::string text = files.head("LICENSE", 4096);
  for (std::string_view rest = text; !rest.empty() && license.empty();) license = trimmed(next_line(rest));
  if (is_utf8(license)) out.license = printable(license.substr(0, kMaxLicenceLine));
}

}  // namespace weightfs::summary
