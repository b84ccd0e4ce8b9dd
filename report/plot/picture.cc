#include "report/plot/picture.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>

namespace weightfs::plot {
namespace {

bool has_finite(const std::vector<double>& values) {
  return std::ranges::any_of(values, [](double value) { return std::isfinite(value); });
}

}  // namespace

Rgb HeatMap::colour_of(size_t row, size_t column) const {
  const double value = at(row, column);
  return categories.empty() || std::isnan(value) ? scale.colour_of(value) : line_colour(static_cast<size_t>(value));
}

std::string HeatMap::lack() const {
  if (values.empty()) return "no elements";
  if (!has_finite(values)) return "no finite numbers";
  return scale.high > scale.low ? "" : fmt::format("all {}", tick_text(scale.low));
}

std::string HeatMap::sentence() const {
  const bool is_overview = !down.names.empty();
  if (!is_overview || !has_finite(values)) return "";
  if (categories.empty() && scale.high > scale.low) return "";
  if (categories.size() > 1) return "";
  return fmt::format("{}: {}", scale_label, categories.empty() ? lack() : "all " + categories.front());
}

std::string_view Curves::lack() const {
  if (std::ranges::any_of(lines, [](const Line& line) { return has_finite(line.values); })) return "";
  const bool is_empty = std::ranges::all_of(lines, [](const Line& line) { return line.values.empty(); });
  return is_empty ? "no elements" : "no finite numbers";
}

std::vector<double> ticks_of(double first, double last, size_t most, double least_step) {
  const double width = last - first;
  if (!(width > 0) || !std::isfinite(width) || most == 0) return {first};
  double step = std::pow(10, std::floor(std::log10(width / static_cast<double>(most))));
  for (const double factor : {1.0, 2.0, 5.0, 10.0})
    if (width / (step * factor) <= static_cast<double>(most)) {
      step *= factor;
      break;
    }
  step = std::max(step, least_step);
  std::vector<double> out;
  for (double tick = std::ceil(first / step) * step; tick <= last + step * 1e-9 && out.size() <= most; tick += step)
    out.push_back(std::abs(tick) < step * 1e-9 ? 0 : tick);
  return out;
}

std::vector<double> ticks_of(const Scale& scale, size_t most) {
  if (!scale.is_log) return ticks_of(scale.low, scale.high, most);
  std::vector<double> out;
  for (const std::initializer_list<double> digits : {std::initializer_list<double>{1, 2, 5}, {1}}) {
    out.clear();
    const double first = std::floor(std::log10(scale.low)), last = std::log10(scale.high);
    for (double power = first; power <= last; ++power)
      for (const double digit : digits)
        if (const double tick = digit * std::pow(10, power); tick >= scale.low && tick <= scale.high)
          out.push_back(tick);
    if (out.size() <= most) break;
  }
  if (out.size() < 2 || out.size() > most) return {scale.low, scale.high};
  return out;
}

std::string_view label_of(std::string_view name) {
  constexpr std::string_view kWeight = ".weight";
  const bool has_more = name.ends_with(kWeight) && name.size() > kWeight.size();
  return has_more ? name.substr(0, name.size() - kWeight.size()) : name;
}

std::string tick_text(double value) {
  constexpr double kMostDigits = 1e7;  // an index of a row is shown whole
  if (value == std::floor(value) && std::abs(value) < kMostDigits) return fmt::format("{:.0f}", value);
  return fmt::format("{:.4g}", value);
}

}  // namespace weightfs::plot
