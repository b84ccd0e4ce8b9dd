// Histograms as text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace weightfs {

enum class BarStyle { ascii, blocks };

/// A line of `width` characters: the height of each is that of its intervals against the highest. An interval that is
/// not empty is never blank. Empty if all are.
std::string sparkline(std::span<const uint64_t> intervals, size_t width, BarStyle style);

/// A histogram of several lines, the highest first.
std::vector<std::string> bars(std::span<const uint64_t> intervals, size_t width, size_t height, BarStyle style);

}  // namespace weightfs
