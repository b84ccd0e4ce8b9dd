#include "formats/summary/facts/front_matter.h"

#include <algorithm>

#include "base/text.h"

namespace weightfs::summary {
namespace {

constexpr size_t kMaxValues = 200;
constexpr size_t kMaxValue = 200;

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
  return std::string(text.substr(0, kMaxValue));
}

using Items = std::vector<std::string>;

void add(Items& items, std::string_view text) {
  std::string item = scalar(text);
  if (!item.empty() && items.size() < kMaxValues) items.push_back(std::move(item));
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

}  // namespace

FrontMatter front_matter(std::string_view readme) {
  FrontMatter out;
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
    if (line[0] == ' ' || line[0] == '\t' || colon == line.npos || out.size() >= kMaxValues) continue;
    const std::string_view value = trimmed(line.substr(colon + 1));
    items = &out[std::string(line.substr(0, std::min(colon, kMaxValue)))];
    if (value.starts_with('['))
      *items = in_brackets(value);
    else if (!value.empty())
      add(*items, value);
  }
  return {};  // the end is missing: this is a rule of Markdown, not front matter
}

std::string_view next_line(std::string_view& text) {
  const size_t end = std::min(text.find('\n'), text.size());
  std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

}  // namespace weightfs::summary
