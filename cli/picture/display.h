// Where a picture is shown: in the terminal, or as PNG, SVG or PDF in a file or on standard output.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "cli/sandbox/output_file.h"
#include "report/plot/graphics.h"
#include "report/plot/picture.h"

namespace weightfs::plot {

/// How a terminal shows pictures; `automatic`: as it can.
enum class GraphicsChoice { automatic, text, kitty, sixel };

enum class PictureFormat { png, svg, pdf };

/// The format of a file by the ending of its name, PNG without one; nothing for another ending.
std::optional<PictureFormat> format_of_picture(std::string_view path);

struct Display {
  std::unique_ptr<sandbox::OutputFile> file;
  std::optional<PictureFormat> format = {};  ///< of the file or standard output; nothing for the terminal
  Graphics graphics = Graphics::text;

  bool is_drawn() const { return format || graphics != Graphics::text; }
};

/// `out`: the path of a file, `-` for standard output, empty for the terminal. Creates the file. Fails as
/// OutputFile::create() does.
Result<Display> open_display(const std::string& out, GraphicsChoice graphics, sandbox::Existing existing);

/// Shows a picture in this size; text ignores it. Fails as draw() and writing fail.
Result<void> show(const Picture& picture, const PictureSize& size, const Display& display);

}  // namespace weightfs::plot
