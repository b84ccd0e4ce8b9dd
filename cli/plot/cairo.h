// Drawing with Cairo, which is loaded when the first picture is drawn: it has thirty libraries of its own, which other
// commands do not wait for.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"
#include "cli/plot/palette.h"

namespace weightfs::plot {

/// A drawing in memory. Coordinates are pixels from the upper left corner.
class Canvas {
 public:
  enum class Anchor { start, middle, end };
  enum class Dashes { none, some };

  /// Loads Cairo and the font. To be called before the process is confined, because that needs files of the system.
  /// Fails with unsupported if weightfs was built without Cairo, or if it is not installed.
  static Result<void> load();

  /// A white drawing. load() must have succeeded. Fails with resource.
  static Result<Canvas> create(size_t width, size_t height);

  Canvas(Canvas&&) noexcept;
  Canvas& operator=(Canvas&&) = delete;
  ~Canvas();

  void fill(double x, double y, double width, double height, Rgb colour);
  /// A line through points.
  void line(std::span<const std::pair<double, double>> points, Rgb colour, double width, Dashes dashes = Dashes::none);
  /// One line of text, whose baseline begins, has its middle, or ends at a point; `upwards` turns it.
  void text(const std::string& text, double x, double y, double size, Anchor anchor, bool upwards = false);
  /// The width of a text in pixels.
  double text_width(const std::string& text, double size);
  /// Cells of one colour each, as an image that is scaled to a rectangle without smoothing.
  void image(std::span<const Rgb> cells, size_t columns, size_t rows, double x, double y, double width, double height);

  /// Fails with resource if something could not be drawn.
  Result<void> check() const;

  size_t width() const;
  size_t height() const;
  /// The pixels, row by row.
  std::vector<Rgb> pixels() const;

  /// Writes it as PNG. Fails as `write` does.
  Result<void> write_png(const std::function<Result<void>(std::span<const std::byte>)>& write) const;

 private:
  struct State;
  explicit Canvas(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace weightfs::plot
