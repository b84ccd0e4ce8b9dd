// Where a picture is shown: in the terminal, or as a PNG in a file or on standard output.
#pragma once

#include <memory>
#include <string>

#include "cli/sandbox/output_file.h"
#include "report/plot/graphics.h"
#include "report/plot/picture.h"

namespace weightfs::plot {

/// How a terminal shows pictures; `automatic`: as it can.
enum class GraphicsChoice { automatic, text, kitty, sixel };

struct Display {
  std::unique_ptr<sandbox::OutputFile> file;
  bool is_png = false;  ///< to the file, or to standard output
  Graphics graphics = Graphics::text;

  bool is_drawn() const { return is_png || graphics != Graphics::text; }
};

/// `out`: the path of a PNG, `-` for standard output, empty for the terminal. Creates the file. Fails as
/// OutputFile::create() does.
Result<Display> open_display(const std::string& out, GraphicsChoice graphics, sandbox::Existing existing);

/// Shows a picture in this size; text ignores it. Fails as draw() and writing fail.
Result<void> show(const Picture& picture, const PictureSize& size, const Display& display);

}  // namespace weightfs::plot
