// Pictures as text for a terminal: two cells in a character, in 24-bit or 256 colours, or shades of ASCII.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "report/plot/picture.h"
#include "report/text/style.h"

namespace weightfs::plot {

enum class TextColours { none, palette_256, true_colour };

/// The colours of standard output: none unless it is a terminal with colours; 24-bit colours if COLORTERM says so.
TextColours text_colours();

/// The number of cells that a heat map may have in text of this width.
struct TextCells {
  size_t rows;
  size_t columns;
};
TextCells text_cells(const info::Style& style, TextColours colours, size_t panels);

/// The lines of a picture, with escape sequences for the colours.
std::vector<std::string> to_text(const Picture& picture, const info::Style& style, TextColours colours);

}  // namespace weightfs::plot
