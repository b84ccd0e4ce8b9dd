#include "report/plot/palette.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

namespace weightfs::plot {
namespace {

// Colours at equal distances; those between them are interpolated.
constexpr std::array kCividis = {Rgb{0, 32, 77},     Rgb{0, 51, 111},    Rgb{57, 72, 107},   Rgb{87, 92, 109},
                                 Rgb{112, 113, 115}, Rgb{138, 135, 121}, Rgb{166, 157, 117}, Rgb{196, 181, 108},
                                 Rgb{228, 207, 91},  Rgb{255, 234, 70}};
constexpr std::array kBlueOrange = {Rgb{16, 60, 130},   Rgb{66, 126, 196}, Rgb{158, 200, 234}, Rgb{247, 247, 247},
                                    Rgb{253, 196, 130}, Rgb{230, 126, 34}, Rgb{140, 62, 0}};
constexpr std::array kLines = {Rgb{0, 114, 178},  Rgb{213, 94, 0},  Rgb{0, 158, 115}, Rgb{204, 121, 167},
                               Rgb{86, 180, 233}, Rgb{230, 159, 0}, Rgb{0, 0, 0},     Rgb{150, 140, 30}};

std::span<const Rgb> colours_of(Palette palette) {
  if (palette == Palette::cividis) return kCividis;
  return kBlueOrange;
}

}  // namespace

Rgb colour_at(Palette palette, double place) {
  if (std::isnan(place)) return kNotFinite;
  const auto colours = colours_of(palette);
  const double scaled = std::clamp(place, 0.0, 1.0) * static_cast<double>(colours.size() - 1);
  const size_t below = std::min(static_cast<size_t>(scaled), colours.size() - 2);
  const double part = scaled - static_cast<double>(below);
  const auto mix = [&](uint8_t a, uint8_t b) { return static_cast<uint8_t>(std::lround(a + (b - a) * part)); };
  const Rgb &a = colours[below], &b = colours[below + 1];
  return {mix(a.red, b.red), mix(a.green, b.green), mix(a.blue, b.blue)};
}

Rgb line_colour(size_t line) { return kLines[line % kLines.size()]; }

bool is_dashed(size_t line) { return line / kLines.size() % 2 == 1; }

double Scale::place_of(double value) const {
  if (!(high > low)) return palette == Palette::blue_orange ? 0.5 : 0;
  if (is_log) return std::log(value / low) / std::log(high / low);
  // The difference itself may overflow.
  return (value / 2 - low / 2) / (high / 2 - low / 2);
}

Rgb Scale::colour_of(double value) const {
  return std::isnan(value) ? kNotFinite : colour_at(palette, place_of(value));
}

}  // namespace weightfs::plot
