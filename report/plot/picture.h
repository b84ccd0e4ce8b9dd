// What a plot shows, before it is drawn: as PNG (draw.h) or as text (text.h).
#pragma once

#include <cstddef>
#include <limits>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "report/plot/palette.h"

namespace weightfs::plot {

/// An axis of a picture: numbers from `first` to `last`, or names at equal distances if there are any.
struct Axis {
  std::string label;
  double first = 0;
  double last = 1;
  std::vector<std::string> names = {};
};

/// The value of a cell or a point without a finite number.
inline constexpr double kNoNumber = std::numeric_limits<double>::quiet_NaN();

/// A grid of coloured cells: a tensor's numbers, or a number for each tensor of a model.
struct HeatMap {
  std::string title;
  std::string note;  ///< beside the title, which may be cut: "sampled"
  Axis right;
  Axis down;
  size_t rows = 0;
  size_t columns = 0;
  std::vector<double> values;  ///< row by row; NaN for a cell without a finite number
  std::vector<bool> blank;     ///< cells that do not exist; empty if all do
  Scale scale;
  std::string scale_label;
  std::vector<std::string> categories;  ///< names, if the values are their numbers; then there is no scale

  double at(size_t row, size_t column) const { return values[row * columns + column]; }
  bool is_blank(size_t row, size_t column) const { return !blank.empty() && blank[row * columns + column]; }
  Rgb colour_of(size_t row, size_t column) const;

  /// What is shown instead of a scale if no cell has a finite number, or all have the same: "no elements", "all 16".
  /// Empty if they differ.
  std::string lack() const;
  /// The sentence that is shown instead of an overview whose cells have the same number or category; empty if they
  /// differ.
  std::string sentence() const;
};

/// Lines over one axis.
struct Curves {
  struct Line {
    std::string name;
    std::vector<double> values;  ///< at equal distances from the first to the last number of the axis
  };
  std::string title;
  std::string note;  ///< as of a heat map
  Axis right;
  std::string label;       ///< of the vertical axis
  bool is_sample = false;  ///< some elements were not read
  bool are_steps = false;  ///< each value is that of an interval, as in a histogram
  std::vector<Line> lines;

  /// What is shown if no line has a finite number.
  std::string_view lack() const;
};

using Panel = std::variant<HeatMap, Curves>;

/// Panels below each other.
using Picture = std::vector<Panel>;

/// The maximum number of panels of a picture, and of lines of a histogram.
inline constexpr size_t kMaxPanels = 128;
inline constexpr size_t kMaxCurveLines = 16;

/// The size in pixels, at most kMaxSide each.
struct PictureSize {
  size_t width = 1200;
  size_t height = 800;
};
inline constexpr size_t kMaxSide = 8192;

/// Numbers at round distances, at least `least_step`, within an axis, at most `most`.
std::vector<double> ticks_of(double first, double last, size_t most, double least_step = 0);

/// Numbers for the ticks of a scale, at most `most`; of a logarithmic one at 1, 2 and 5 of a power of ten, if they fit.
std::vector<double> ticks_of(const Scale& scale, size_t most);

/// The name of a column as its label: without ".weight" at its end, which most have.
std::string_view label_of(std::string_view name);

/// A number at a tick: as few digits as its neighbours need.
std::string tick_text(double value);

}  // namespace weightfs::plot
