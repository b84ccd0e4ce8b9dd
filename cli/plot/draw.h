// Draws pictures with Cairo.
#pragma once

#include "cli/plot/cairo.h"
#include "cli/plot/picture.h"

namespace weightfs::plot {

/// Panels of equal height, with axes, numbers and scales. Canvas::load() must have succeeded. Fails with resource.
Result<Canvas> draw(const Picture& picture, const PictureSize& size);

/// The pixels of the plot area of a panel, for the number of cells that can be told apart.
PictureSize plot_area(const PictureSize& size, size_t panels);

}  // namespace weightfs::plot
