// Pictures in a terminal that can show them: by the protocol of kitty, or as sixels (DEC VT340).
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "report/plot/palette.h"
#include "report/plot/picture.h"

namespace weightfs::plot {

enum class Graphics { text, kitty, sixel };

/// What the terminal on standard output can show: by its environment, else by its reply to the request for its
/// attributes, which is waited for at most a fifth of a second. Text if it is not a terminal.
Graphics graphics_of_terminal();

/// A size that fits into the terminal.
PictureSize terminal_picture_size();

/// A PNG for kitty.
std::string kitty_sequence(std::string_view png);

/// Pixels as sixels, in 252 colours.
std::string sixel_sequence(std::span<const Rgb> pixels, size_t width);

}  // namespace weightfs::plot
