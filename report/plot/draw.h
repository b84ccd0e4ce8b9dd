// Draws pictures.
#pragma once

#include "report/plot/picture.h"
#include "report/plot/raster/canvas.h"

namespace weightfs::plot {

/// Draws panels of equal height, with axes, numbers and scales. Fails with unsupported if the size is less than the
/// least.
Result<void> draw(const Picture& picture, const PictureSize& size, Drawing& drawing);

/// The pixels of a picture. Fails also with resource.
Result<Canvas> draw(const Picture& picture, const PictureSize& size);

/// The size, higher if the panels, their rows and their lines need that for all their texts.
PictureSize grown(PictureSize size, const Picture& picture);

/// The least size of a picture: each row and column with a name has a pixel, and no text overlaps another.
PictureSize least_size(const Picture& picture);

/// The pixels of the plot area of a panel, for the number of cells that can be told apart.
PictureSize plot_area(const PictureSize& size, size_t panels);

}  // namespace weightfs::plot
