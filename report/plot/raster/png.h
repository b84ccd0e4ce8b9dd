// PNG, with zlib.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "base/result.h"
#include "report/plot/palette.h"

namespace weightfs::plot {

/// Pixels, row by row, as a PNG file of 8-bit RGB. Equal pixels give equal bytes. Fails with resource.
Result<std::string> to_png(std::span<const Rgb> pixels, size_t width);

}  // namespace weightfs::plot
