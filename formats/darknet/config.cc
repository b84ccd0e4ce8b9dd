#include "formats/darknet/config.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/text.h"

namespace weightfs::darknet {
namespace {

// The memory of a section and of an option, besides texts.
constexpr uint64_t kSectionSize = 64;
constexpr uint64_t kOptionSize = 64;

// The line without white space, as Darknet reads it.
std::string stripped(std::string_view line) {
  std::string out(line);
  std::erase_if(out, [](char c) { return c == ' ' || c == '\t' || c == '\r'; });
  return out;
}

}  // namespace

std::string_view Section::text(std::string_view key) const {
  const auto found = std::ranges::find(options, key, [](const auto& option) { return std::string_view(option.first); });
  return found == options.end() ? std::string_view() : found->second;
}

Result<int64_t> Section::number(std::string_view key, int64_t absent) const {
  const std::string_view value = text(key);
  if (value.empty()) return absent;
  const auto number = parse_number<int64_t>(value);
  if (number) return *number;
  return failure(Code::corrupt, fmt::format("[{}]: {}={}, an integer expected", printable(type), key, quoted(value)));
}

Result<std::vector<Section>> parse_config(std::string_view text, Charges& charges) {
  std::vector<Section> sections;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string line = stripped(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty() || line.front() == '#' || line.front() == ';') continue;
    if (line.front() == '[') {
      TRY_VOID(charges.charge(Cost::kept, kSectionSize + line.size()));
      sections.push_back({line.substr(1, line.find(']') - 1), {}});
      continue;
    }
    const size_t equals = line.find('=');
    if (equals == line.npos) continue;
    if (sections.empty()) return failure(Code::corrupt, fmt::format("{} before a section", quoted(line)));
    TRY_VOID(charges.charge(Cost::kept, kOptionSize + line.size()));
    sections.back().options.emplace_back(line.substr(0, equals), line.substr(equals + 1));
  }
  if (sections.empty() || (sections.front().type != "net" && sections.front().type != "network"))
    return failure(Code::corrupt, "it does not begin with the section [net]");
  return sections;
}

}  // namespace weightfs::darknet
