#include "cli/picture/option_values.h"

#include <algorithm>

#include "base/text.h"

namespace weightfs::plot {
namespace {

// "12x34": two numbers.
template <char separator>
std::optional<std::pair<uint64_t, uint64_t>> parse_pair(const std::string& text) {
  const size_t at = text.find(separator);
  if (at == text.npos) return std::nullopt;
  const auto first = parse_number<uint64_t>(text.substr(0, at)), second = parse_number<uint64_t>(text.substr(at + 1));
  return first && second ? std::optional(std::pair(*first, *second)) : std::nullopt;
}

}  // namespace

std::optional<std::pair<size_t, size_t>> parse_axes(const std::string& text) { return parse_pair<','>(text); }

std::optional<WindowChoice> parse_window(const std::string& text) {
  const size_t comma = text.find(',');
  if (comma == text.npos) return std::nullopt;
  const auto rows = parse_pair<':'>(text.substr(0, comma)), columns = parse_pair<':'>(text.substr(comma + 1));
  if (!rows || !columns) return std::nullopt;
  return WindowChoice{rows->first, rows->second, columns->first, columns->second};
}

std::optional<PictureSize> parse_size(const std::string& text) {
  constexpr uint64_t kMinSide = 300;
  const auto sides = parse_pair<'x'>(text);
  if (!sides || std::min(sides->first, sides->second) < kMinSide || std::max(sides->first, sides->second) > kMaxSide)
    return std::nullopt;
  return PictureSize{static_cast<size_t>(sides->first), static_cast<size_t>(sides->second)};
}

std::optional<Indices> parse_indices(const std::string& text) {
  Indices out;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const auto number = parse_number<uint64_t>(text.substr(begin, end - begin));
    if (!number) return std::nullopt;
    out.push_back(*number);
    begin = end + 1;
  }
  return out;
}

}  // namespace weightfs::plot
