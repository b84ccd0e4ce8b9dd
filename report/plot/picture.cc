#include "report/plot/picture.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

namespace weightfs::plot {
namespace {

bool has_finite(const std::vector<double>& values) {
  return std::ranges::any_of(values, [](double value) { return std::isfinite(value); });
}

}  // namespace

std::string_view HeatMap::lack() const {
  if (has_finite(values)) return "";
  return values.empty() ? "no elements" : "no finite numbers";
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

std::string tick_text(double value) {
  constexpr double kMostDigits = 1e7;  // an index of a row is shown whole
  if (value == std::floor(value) && std::abs(value) < kMostDigits) return fmt::format("{:.0f}", value);
  return fmt::format("{:.4g}", value);
}

}  // namespace weightfs::plot
