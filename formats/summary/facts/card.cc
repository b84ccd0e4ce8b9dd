#include "formats/summary/facts/card.h"

#include <algorithm>
#include <array>
#include <map>
#include <vector>

#include "base/text.h"
#include "formats/summary/fields.h"

namespace weightfs::summary {
namespace {

constexpr uint64_t kMaxFrontMatter = 256 * 1024;
constexpr uint64_t kTokenizerHead = 256 * 1024;
constexpr uint64_t kMaxTemplate = 1 << 20;
constexpr size_t kMaxItems = 200;
constexpr size_t kMaxItem = 200;
constexpr size_t kMaxLicenceLine = 80;

std::string_view next_line(std::string_view& text) {
  const size_t end = std::min(text.find('\n'), text.size());
  std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

// A scalar of YAML on one line: quoted or not, a comment cut off. Empty for what begins another kind of value.
std::string scalar(std::string_view text) {
  text = trimmed(text);
  if (text.size() >= 2 && (text[0] == '"' || text[0] == '\'')) {
    const size_t end = text.find(text[0], 1);
    return end == text.npos ? "" : std::string(text.substr(1, end - 1));
  }
  if (const size_t comment = text.find(" #"); comment != text.npos) text = trimmed(text.substr(0, comment));
  static constexpr std::string_view kOther = "&*|>{!@`%";
  if (text.empty() || kOther.find(text[0]) != kOther.npos || text == "null" || text == "~") return "";
  return std::string(text.substr(0, kMaxItem));
}

using Items = std::vector<std::string>;

void add(Items& items, std::string_view text) {
  std::string item = scalar(text);
  if (!item.empty() && items.size() < kMaxItems) items.push_back(std::move(item));
}

Items in_brackets(std::string_view text) {
  Items items;
  text.remove_prefix(1);
  text = text.substr(0, text.find(']'));
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    add(items, text.substr(0, comma));
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return items;
}

// The keys at the left margin between the two `---` lines.
std::map<std::string, Items, std::less<>> front_matter(std::string_view readme) {
  std::map<std::string, Items, std::less<>> out;
  if (readme.starts_with("\xEF\xBB\xBF")) readme.remove_prefix(3);
  if (next_line(readme) != "---") return out;
  Items* items = nullptr;  // of the key whose list goes on
  while (!readme.empty()) {
    const std::string_view line = next_line(readme);
    if (line == "---" || line == "...") return out;
    const std::string_view text = trimmed(line);
    if (text.empty() || text[0] == '#') continue;
    if (text.starts_with("- ")) {
      if (items != nullptr) add(*items, text.substr(2));
      continue;
    }
    items = nullptr;
    const size_t colon = line.find(':');
    if (line[0] == ' ' || line[0] == '\t' || colon == line.npos || out.size() >= kMaxItems) continue;
    const std::string_view value = trimmed(line.substr(colon + 1));
    items = &out[std::string(line.substr(0, std::min(colon, kMaxItem)))];
    if (value.starts_with('['))
      *items = in_brackets(value);
    else if (!value.empty())
      add(*items, value);
  }
  return {};  // the end is missing: this is a rule of Markdown, not front matter
}

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
  out.tokenizer = tokenizer_kind(files.head("tokenizer.json", kTokenizerHead));
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
    return found == card.end() ? Items() : found->second;
  };
  const auto first = [&](std::string_view key) {
    const Items all = items(key);
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
