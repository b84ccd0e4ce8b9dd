#include "cli/plot/picture.h"

#include <fmt/core.h>

#include <cmath>

namespace weightfs::plot {

std::vector<double> ticks_of(double first, double last, size_t most) {
  const double width = last - first;
  if (!(width > 0) || !std::isfinite(width) || most == 0) return {first};
  double step = std::pow(10, std::floor(std::log10(width / static_cast<double>(most))));
  for (const double factor : {1.0, 2.0, 5.0, 10.0})
    if (width / (step * factor) <= static_cast<double>(most)) {
      step *= factor;
      break;
    }
  std::vector<double> out;
  for (double tick = std::ceil(first / step) * step; tick <= last + step * 1e-9 && out.size() <= most; tick += step)
    out.push_back(std::abs(tick) < step * 1e-9 ? 0 : tick);
  return out;
}

std::string tick_text(double value) { return fmt::format("{:.4g}", value); }

}  // namespace weightfs::plot
