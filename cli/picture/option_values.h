// The values of the options of weightfs plot. Nothing for texts that are not such values.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "report/plot/make.h"
#include "report/plot/picture.h"

namespace weightfs::plot {

/// "0,1".
std::optional<std::pair<size_t, size_t>> parse_axes(const std::string& text);
/// "0:64,128:256".
std::optional<WindowChoice> parse_window(const std::string& text);
/// "1200x800", each from 300 to kMaxSide.
std::optional<PictureSize> parse_size(const std::string& text);
/// "0,3,0".
std::optional<Indices> parse_indices(const std::string& text);

}  // namespace weightfs::plot
