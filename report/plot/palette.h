// Colours for numbers, which are readable without colour vision.
#pragma once

#include <cstddef>
#include <cstdint>

namespace weightfs::plot {

struct Rgb {
  uint8_t red = 0;
  uint8_t green = 0;
  uint8_t blue = 0;

  bool operator==(const Rgb&) const = default;
};

enum class Palette {
  cividis,     ///< from dark blue to yellow: magnitudes (Nuñez, Anderton and Renslow, 2018)
  blue_orange  ///< from blue over white to orange: numbers of both signs
};

/// NaN, and cells without a finite number.
inline constexpr Rgb kNotFinite{214, 0, 147};

/// The colour of a place from 0 to 1; places outside have the colours of the ends.
Rgb colour_at(Palette palette, double place);

/// The colours of lines and of their names, which all readers can tell apart (Okabe and Ito). They repeat, with
/// dashes.
Rgb line_colour(size_t line);
bool is_dashed(size_t line);

/// A palette with the numbers at its ends.
struct Scale {
  Palette palette = Palette::cividis;
  double low = 0;
  double high = 1;
  bool is_log = false;  ///< equal distances are equal ratios; `low` is above 0 then

  /// The place of a number, from 0 to 1 for those from `low` to `high`. A scale without a range has one place.
  double place_of(double value) const;
  Rgb colour_of(double value) const;
};

}  // namespace weightfs::plot
