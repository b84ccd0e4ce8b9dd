// Lines with a width, as polygons.
#pragma once

#include <span>

#include "report/plot/raster/coverage.h"

namespace weightfs::plot {

enum class Dashes { none, some };

/// The pixels of a dash, and with the gap after it.
inline constexpr double kDash = 4, kPeriod = 6;

/// Adds the parts of a line through points to the coverage of a drawing of this size: mitred where it turns, and cut
/// off straight at its ends. What lies outside the drawing costs nothing; a point that is not finite interrupts the
/// line.
void add_stroke(Coverage& coverage, std::span<const Point> points, double width, Dashes dashes, const Point& drawing);

}  // namespace weightfs::plot
