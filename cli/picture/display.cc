#include "cli/picture/display.h"

#include <cstdio>
#include <filesystem>
#include <span>
#include <utility>

#include "base/text.h"
#include "report/plot/draw.h"
#include "report/plot/raster/png.h"
#include "report/plot/text.h"
#include "report/plot/vector/pdf.h"
#include "report/plot/vector/svg.h"

namespace weightfs::plot {

std::optional<PictureFormat> format_of_picture(std::string_view path) {
  const std::string ending = lower_case(std::filesystem::path(path).extension().string());
  if (ending.empty() || ending == ".png") return PictureFormat::png;
  if (ending == ".svg") return PictureFormat::svg;
  return ending == ".pdf" ? std::optional(PictureFormat::pdf) : std::nullopt;
}

Result<Display> open_display(const std::string& out, GraphicsChoice graphics, sandbox::Existing existing) {
  Display display;
  if (out.empty()) {
    display.graphics = graphics == GraphicsChoice::automatic ? graphics_of_terminal()
                       : graphics == GraphicsChoice::kitty   ? Graphics::kitty
                       : graphics == GraphicsChoice::sixel   ? Graphics::sixel
                                                             : Graphics::text;
    return display;
  }
  display.format = format_of_picture(out).value_or(PictureFormat::png);
  if (out != "-") display.file = TRY(sandbox::OutputFile::create(out, existing));
  return display;
}

namespace {

template <class Vectors>
Result<std::string> drawn(const Picture& picture, const PictureSize& size) {
  Vectors drawing(size.width, size.height);
  TRY_VOID(draw(picture, size, drawing));
  return std::move(drawing).finish();
}

Result<std::string> file_of(const Picture& picture, const PictureSize& size, PictureFormat format) {
  if (format == PictureFormat::svg) return drawn<SvgDrawing>(picture, size);
  if (format == PictureFormat::pdf) return drawn<PdfDrawing>(picture, size);
  const Canvas canvas = TRY(draw(picture, size));
  return to_png(canvas.pixels(), canvas.width());
}

Result<void> show_drawn(const Picture& picture, const PictureSize& size, const Display& display) {
  if (display.graphics == Graphics::sixel) {
    const Canvas canvas = TRY(draw(picture, size));
    std::fputs(sixel_sequence(canvas.pixels(), canvas.width()).c_str(), stdout);
    return {};
  }
  const std::string bytes = TRY(file_of(picture, size, display.format.value_or(PictureFormat::png)));
  if (display.file != nullptr) return display.file->write(0, std::as_bytes(std::span(bytes)));
  const std::string text = display.format ? bytes : kitty_sequence(bytes);
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
  if (display.format) return show_drawn(picture, size, display);
  for (const Panel& panel : picture) TRY_VOID(show_drawn({panel}, {size.width, size.height / picture.size()}, display));
  return {};
}

}  // namespace weightfs::plot
