#include "report/text/bars.h"

#include <algorithm>
#include <array>

namespace weightfs {
namespace {

// From empty to full.
constexpr std::array kBlocks = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
constexpr std::array kAscii = {" ", ".", ":", "-", "=", "+", "*", "%", "#"};
constexpr size_t kSteps = 8;  // of a character

// The sums of the intervals of each column.
std::vector<uint64_t> columns_of(std::span<const uint64_t> intervals, size_t width) {
  std::vector<uint64_t> out(std::min(width, intervals.size()));
  for (size_t i = 0; i < intervals.size(); ++i) out[i * out.size() / intervals.size()] += intervals[i];
  return out;
}

// The height of a column in steps: at least one, unless it is empty.
size_t height_of(uint64_t count, uint64_t highest, size_t steps) {
  if (count == 0) return 0;
  const double part = static_cast<double>(count) / static_cast<double>(highest);
  return std::clamp<size_t>(static_cast<size_t>(part * static_cast<double>(steps) + 0.5), 1, steps);
}

}  // namespace

std::vector<std::string> bars(std::span<const uint64_t> intervals, size_t width, size_t height, BarStyle style) {
  const std::vector<uint64_t> columns = columns_of(intervals, width);
  const uint64_t highest = columns.empty() ? 0 : std::ranges::max(columns);
  std::vector<std::string> lines(height);
  for (size_t line = 0; line < height; ++line) {
    const size_t below = (height - 1 - line) * kSteps;
    for (const uint64_t count : columns) {
      const size_t steps = height_of(count, highest, height * kSteps);
      const size_t step = std::clamp(steps, below, below + kSteps) - below;
      lines[line] += style == BarStyle::blocks ? kBlocks[step] : kAscii[step];
    }
  }
  return lines;
}

std::string sparkline(std::span<const uint64_t> intervals, size_t width, BarStyle style) {
  return bars(intervals, width, 1, style).front();
}

}  // namespace weightfs
