#include "cli/picture/display.h"

#include <cstdio>
#include <span>

#include "report/plot/draw.h"
#include "report/plot/raster/png.h"
#include "report/plot/text.h"

namespace weightfs::plot {

Result<Display> open_display(const std::string& out, GraphicsChoice graphics, sandbox::Existing existing) {
  Display display;
  if (out.empty()) {
    display.graphics = graphics == GraphicsChoice::automatic ? graphics_of_terminal()
                       : graphics == GraphicsChoice::kitty   ? Graphics::kitty
                       : graphics == GraphicsChoice::sixel   ? Graphics::sixel
                                                             : Graphics::text;
    return display;
  }
  display.is_png = true;
  if (out != "-") display.file = TRY(sandbox::OutputFile::create(out, existing));
  return display;
}

namespace {

Result<void> show_drawn(const Picture& picture, const PictureSize& size, const Display& display) {
  const Canvas canvas = TRY(draw(picture, size));
  if (display.graphics == Graphics::sixel) {
    std::fputs(sixel_sequence(canvas.pixels(), canvas.width()).c_str(), stdout);
    return {};
  }
  const std::string png = TRY(to_png(canvas.pixels(), canvas.width()));
  if (display.file != nullptr) return display.file->write(0, std::as_bytes(std::span(png)));
  const std::string text = display.is_png ? png : kitty_sequence(png);
  std::fwrite(text.data(), 1, text.size(), stdout);
  return {};
}

}  // namespace

// Standard output gets a terminal's panels one by one, because its images have a limited height.
Result<void> show(const Picture& picture, const PictureSize& size, const Display& display) {
  if (!display.is_drawn()) {
    const info::Style style = info::style_of_stdout();
    for (const std::string& line : to_text(picture, style, text_colours()))
      std::fputs(info::emit({line}, style).c_str(), stdout);
    return {};
  }
  if (display.is_png) return show_drawn(picture, size, display);
  for (const Panel& panel : picture) TRY_VOID(show_drawn({panel}, {size.width, size.height / picture.size()}, display));
  return {};
}

}  // namespace weightfs::plot
