// Numbers and points of vector graphics as text.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "report/plot/raster/coverage.h"

namespace weightfs::plot {

/// At most two decimals, which is a hundredth of a pixel: "12.5". Numbers far outside of any drawing are cut.
std::string number_text(double number);

/// Whether a rectangle is finite and not empty.
bool is_area(double x, double y, double width, double height);

/// The runs of at least two finite points of a line.
std::vector<std::span<const Point>> finite_runs(std::span<const Point> points);

}  // namespace weightfs::plot
