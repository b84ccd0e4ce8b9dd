// DejaVu Sans, compiled in: pictures need no font of the system.
#pragma once

#include <string_view>
#include <vector>

#include "report/plot/raster/coverage.h"

namespace weightfs::plot {

/// Glyphs as numbers of 5 bits a character (scripts/font): for each the step to its code point, its advance, and its
/// contours, of which each point is a step, with the lowest bit set on the curve.
extern const std::string_view kFontOutlines;

/// The pixels that the pen advances over `text`, of this size in pixels: a whole number for each character. Any bytes
/// are a text: what the font lacks is a box.
double advance_of(std::string_view text, double size);

/// The polygons of `text`, with the pen at (0, 0) and y down. Their horizontal lines are on whole pixels, so small text
/// is sharp.
std::vector<std::vector<Point>> outlines_of(std::string_view text, double size);

}  // namespace weightfs::plot
