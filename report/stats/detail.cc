// One tensor in detail.
#include <fmt/core.h>

#include <algorithm>

#include "fs/tree/listing.h"
#include "report/stats/columns.h"
#include "report/stats/screen.h"
#include "report/text/bars.h"
#include "report/text/shown_names.h"

namespace weightfs::stats {
namespace {

using numbers::FiniteStatistics;
using numbers::Statistics;

constexpr size_t kHistogramHeight = 8;
constexpr size_t kMaxLabel = 10;

std::string share_text(uint64_t part, uint64_t whole) {
  if (part == 0 || whole == 0) return "";
  return fmt::format(" ({:.3g} %)", 100.0 * static_cast<double>(part) / static_cast<double>(whole));
}

std::string name_of(double quantile) { return quantile == 0.5 ? "median" : fmt::format("p{:g}", 100 * quantile); }

class Detail {
 public:
  explicit Detail(const info::Style& style) : style_(style) {}

  // A label, and a text that is continued on further lines.
  void add(std::string_view label, const std::string& text) {
    if (text.empty()) return;
    const size_t indent = info::kIndent + kMaxLabel + info::kGap;
    bool is_first = true;
    for (const std::string& line : info::wrapped(text, style_.width - indent, style_)) {
      lines_.push_back(std::string(info::kIndent, ' ') + info::left(is_first ? label : "", kMaxLabel + info::kGap) +
                       line);
      is_first = false;
    }
  }

  void add_counts(const Statistics& of) {
    add("zeros", std::to_string(of.zeros) + share_text(of.zeros, of.count));
    if (of.nan > 0) add("NaN", std::to_string(of.nan) + share_text(of.nan, of.count));
    if (of.inf > 0) add("infinite", std::to_string(of.inf) + share_text(of.inf, of.count));
    if (of.rows) add("dead rows", fmt::format("{} of {}", of.dead_rows, *of.rows));
    if (of.is_sample())
      add("sampled", fmt::format("{} of {} elements{}", of.count, of.elements, share_text(of.count, of.elements)));
  }

  void add_finite(const FiniteStatistics& of) {
    const auto text = [](std::optional<double> value) { return value ? figure_text(*value) : std::string("-"); };
    add("mean", fmt::format("{}, std {}, skewness {}, kurtosis {}", figure_text(of.moments.mean()),
                            figure_text(of.moments.std()), text(of.moments.skewness()), text(of.moments.kurtosis())));
    add("norms",
        fmt::format("L1 {}, L2 {}, max {}, RMS {}", figure_text(of.moments.l1()), figure_text(of.moments.l2()),
                    figure_text(std::max(-of.moments.min(), of.moments.max())), figure_text(of.moments.rms())));
    std::string quantiles = fmt::format("min {}", figure_text(of.moments.min()));
    for (size_t i = 0; i < numbers::kQuantiles.size(); ++i)
      quantiles += fmt::format(", {} {}", name_of(numbers::kQuantiles[i]), figure_text(of.quantiles[i]));
    add(of.is_exact ? "quantiles" : "about", fmt::format("{}, max {}", quantiles, figure_text(of.moments.max())));
    if (of.distinct) add("distinct", std::to_string(*of.distinct));
  }

  void add_histogram(const FiniteStatistics& of) {
    const auto bar_style = style_.charset == info::Charset::utf8 ? BarStyle::blocks : BarStyle::ascii;
    // Each interval gets as many characters as fit.
    const size_t room = style_.width - info::kIndent;
    const size_t each = std::max<size_t>(room / of.histogram.size(), 1);
    std::vector<uint64_t> wide;
    for (const uint64_t count : of.histogram) wide.insert(wide.end(), each, count);
    const size_t width = std::min(room, wide.size());
    lines_.emplace_back();
    for (const std::string& line : bars(wide, width, kHistogramHeight, bar_style))
      lines_.push_back(std::string(info::kIndent, ' ') + line);
    const std::string first = figure_text(of.moments.min()), last = figure_text(of.moments.max());
    lines_.push_back(std::string(info::kIndent, ' ') + first +
                     info::right(last, width > first.size() ? width - first.size() : last.size() + 1));
  }

  std::vector<std::string> lines_;

 private:
  const info::Style& style_;
};

std::string scale_text(const Statistics& of) {
  if (!of.finite) return fmt::format("{}", of.count);
  const auto& quantiles = of.finite->quantiles;
  const size_t median = static_cast<size_t>(std::ranges::find(numbers::kQuantiles, 0.5) - numbers::kQuantiles.begin());
  return fmt::format("{}, min {}, median {}, max {}, zeros {}{}", of.count, figure_text(of.finite->moments.min()),
                     figure_text(quantiles[median]), figure_text(of.finite->moments.max()), of.zeros,
                     share_text(of.zeros, of.count));
}

// The first of them, and how many there are.
std::string singular_text(const Result<std::vector<double>>& values) {
  constexpr size_t kMost = 8;
  if (!values) return values.error().message;
  std::string text;
  for (size_t i = 0; i < std::min(kMost, values->size()); ++i) text += (i == 0 ? "" : ", ") + figure_text((*values)[i]);
  return values->size() <= kMost
             ? text
             : fmt::format("{}, ... ({} values, the last {})", text, values->size(), figure_text(values->back()));
}

}  // namespace

std::vector<std::string> lora_lines(const std::vector<LoraFigures>& pairs, const info::Style& style) {
  std::vector<std::string> lines;
  if (pairs.empty()) return lines;
  lines.emplace_back();
  lines.push_back(info::painted("LoRA: singular values of B A, without a scale", info::Paint::bold));
  for (const LoraFigures& pair : pairs) {
    const std::string text = pair.singular_values
                                 ? fmt::format("{}: rank {}, norm {}; {}", pair.name, pair.rank,
                                               figure_text(pair.norm()), singular_text(pair.singular_values))
                                 : fmt::format("{}: {}", pair.name, pair.singular_values.error().message);
    for (const std::string& line : info::wrapped(info::clean(text, style), style.width - info::kIndent, style))
      lines.push_back(std::string(info::kIndent, ' ') + line);
  }
  return lines;
}

std::vector<std::string> detail_lines(const TensorFigures& one, const info::Style& style) {
  Detail detail(style);
  for (const std::string& line : info::broken_name(info::clean(one.name, style), style.width))
    detail.lines_.push_back(info::painted(line, info::Paint::bold));
  detail.add("type", fmt::format("{} {}, {} elements, {}", dtype_text(one.tensor), shape_text(one.tensor.shape),
                                 info::grouped(row_of(one).elements), info::bytes_text(one.tensor.nbytes())));
  if (!one.statistics) {
    detail.add("error", info::clean(one.statistics.error().message, style));
    return detail.lines_;
  }
  detail.add_counts(*one.statistics);
  if (one.statistics->finite) detail.add_finite(*one.statistics->finite);
  if (one.scales) {
    detail.add("scales", scale_text(one.scales->scales));
    if (one.scales->minimums) detail.add("minimums", scale_text(*one.scales->minimums));
  }
  if (one.singular_values) detail.add("singular", singular_text(*one.singular_values));
  if (one.statistics->finite) detail.add_histogram(*one.statistics->finite);
  for (const std::string& line : channel_lines(one, style)) detail.lines_.push_back(line);
  return detail.lines_;
}

}  // namespace weightfs::stats
