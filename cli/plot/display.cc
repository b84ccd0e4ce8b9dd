#include "cli/plot/display.h"

#include <cstdio>
#include <span>

#include "cli/plot/draw.h"
#include "cli/plot/text.h"

namespace weightfs::plot {

Result<Display> open_display(const std::string& out, GraphicsChoice graphics, sandbox::Existing existing) {
  Display display;
  if (out.empty()) {
    display.graphics = graphics == GraphicsChoice::automatic ? graphics_of_terminal()
                       : graphics == GraphicsChoice::kitty   ? Graphics::kitty
                       : graphics == GraphicsChoice::sixel   ? Graphics::sixel
                                                             : Graphics::text;
    if (display.graphics == Graphics::text || graphics != GraphicsChoice::automatic) return display;
    if (!Canvas::load()) display.graphics = Graphics::text;  // a terminal shows it without Cairo, too
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
  std::string png;
  TRY_VOID(canvas.write_png([&](std::span<const std::byte> bytes) -> Result<void> {
    png.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return {};
  }));
  if (display.file != nullptr) return display.file->write(0, std::as_bytes(std::span(png)));
  const std::string text = display.is_png ? png : kitty_sequence(png);
  std::fwrite(text.data(), 1, text.size(), stdout);
  return {};
}

}  // namespace

// Standard output gets a terminal's panels one by one, because its images have a limited height.
Result<void> show(const Picture& picture, const PictureSize& size, const Display& display) {
  if (!display.needs_cairo()) {
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
