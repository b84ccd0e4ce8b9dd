#include "report/stats/columns.h"

#include <fmt/core.h>

#include <algorithm>
#include <vector>

#include "base/text.h"
#include "fs/tree/listing.h"
#include "report/text/bars.h"

namespace weightfs::stats {
namespace {

using numbers::FiniteStatistics;
using numbers::Statistics;

constexpr size_t kSparkline = 16;  // characters

std::optional<double> quantile_of(const FiniteStatistics& finite, double quantile) {
  const auto found = std::ranges::find(numbers::kQuantiles, quantile);
  if (finite.quantiles.empty()) return std::nullopt;
  return finite.quantiles[static_cast<size_t>(found - numbers::kQuantiles.begin())];
}

template <class Figure>
Column finite_column(const char* name, int rank, Figure figure) {
  const auto number = [figure](const Row& row) -> std::optional<double> {
    if (row.statistics == nullptr || !row.statistics->finite) return std::nullopt;
    return figure(*row.statistics->finite);
  };
  return {name,
          rank,
          false,
          number,
          [number](const Row& row, const info::Style&) {
            const auto value = number(row);
            return value ? figure_text(*value) : std::string();
          },
          [number](const Row& row) {
            const auto value = number(row);
            return value ? fmt::format("{}", *value) : std::string();
          }};
}

template <class Count>
Column count_column(const char* name, int rank, Count count) {
  const auto number = [count](const Row& row) -> std::optional<double> {
    if (row.statistics == nullptr) return std::nullopt;
    return static_cast<double>(count(*row.statistics));
  };
  return {name,
          rank,
          false,
          number,
          [count](const Row& row, const info::Style&) {
            return row.statistics == nullptr ? std::string() : std::to_string(count(*row.statistics));
          },
          [count](const Row& row) {
            return row.statistics == nullptr ? std::string() : std::to_string(count(*row.statistics));
          }};
}

Column text_column(const char* name, int rank, std::function<std::string(const Row&)> text) {
  return {name,
          rank,
          true,
          nullptr,
          [text](const Row& row, const info::Style& style) { return info::clean(text(row), style); },
          text};
}

// Exact counts below 10,000, then as numbers of parameters.
std::string short_count(uint64_t count) {
  return count < 10'000 ? std::to_string(count) : info::parameters_text(count);
}

Column elements_column() {
  return {"elements",
          5,
          false,
          [](const Row& row) -> std::optional<double> { return static_cast<double>(row.elements); },
          [](const Row& row, const info::Style&) { return short_count(row.elements); },
          [](const Row& row) { return std::to_string(row.elements); }};
}

Column zeros_column() {
  Column column = count_column("zeros", 4, [](const Statistics& of) { return of.zeros; });
  column.shown = [](const Row& row, const info::Style&) {
    if (row.statistics == nullptr) return std::string();
    const Statistics& of = *row.statistics;
    if (of.zeros < 10'000 || of.count == 0) return std::to_string(of.zeros);
    return fmt::format("{:.2g} %", 100.0 * static_cast<double>(of.zeros) / static_cast<double>(of.count));
  };
  return column;
}

Column flags_column() {
  Column column = text_column(
      "flags", 1, [](const Row& row) { return row.statistics == nullptr ? row.note : flags_of(*row.statistics); });
  column.is_note = true;
  return column;
}

std::span<const uint64_t> histogram_of(const Row& row) {
  if (row.statistics == nullptr || !row.statistics->finite) return {};
  return row.statistics->finite->histogram;
}

Column histogram_column() {
  return {"histogram",
          3,
          true,
          nullptr,
          [](const Row& row, const info::Style& style) {
            const auto bars = style.charset == info::Charset::utf8 ? BarStyle::blocks : BarStyle::ascii;
            return histogram_of(row).empty() ? std::string() : sparkline(histogram_of(row), kSparkline, bars);
          },
          [](const Row& row) {
            std::string counts;
            for (const uint64_t count : histogram_of(row))
              counts += fmt::format("{}{}", counts.empty() ? "" : ",", count);
            return counts;
          }};
}

std::vector<Column> make_columns() {
  const auto quantile = [](double share) {
    return [share](const FiniteStatistics& of) { return quantile_of(of, share); };
  };
  using Optional = std::optional<double>;
  return {
      text_column("tensor", 0, [](const Row& row) { return row.name; }),
      text_column("dtype", 6, [](const Row& row) { return row.dtype; }),
      elements_column(),
      finite_column("mean", 7, [](const FiniteStatistics& of) { return Optional(of.moments.mean()); }),
      finite_column("std", 1, [](const FiniteStatistics& of) { return Optional(of.moments.std()); }),
      finite_column("min", 1, [](const FiniteStatistics& of) { return Optional(of.moments.min()); }),
      finite_column("p1", 8, quantile(0.01)),
      finite_column("median", 9, quantile(0.5)),
      finite_column("p99", 8, quantile(0.99)),
      finite_column("max", 1, [](const FiniteStatistics& of) { return Optional(of.moments.max()); }),
      zeros_column(),
      flags_column(),
      histogram_column(),
      // Those below are only in a pipe and in --sort.
      count_column("nan", 10, [](const Statistics& of) { return of.nan; }),
      count_column("inf", 10, [](const Statistics& of) { return of.inf; }),
      count_column("dead_rows", 10, [](const Statistics& of) { return of.dead_rows; }),
      finite_column("rms", 10, [](const FiniteStatistics& of) { return Optional(of.moments.rms()); }),
      finite_column("l1", 10, [](const FiniteStatistics& of) { return Optional(of.moments.l1()); }),
      finite_column("l2", 10, [](const FiniteStatistics& of) { return Optional(of.moments.l2()); }),
      finite_column("skewness", 10, [](const FiniteStatistics& of) { return of.moments.skewness(); }),
      finite_column("kurtosis", 10, [](const FiniteStatistics& of) { return of.moments.kurtosis(); }),
  };
}

}  // namespace

std::string figure_text(double value) { return fmt::format("{:.4g}", value); }

std::string flags_of(const Statistics& statistics) {
  std::vector<std::string> flags;
  const auto add = [&](const char* name, uint64_t count) {
    if (count > 0) flags.push_back(fmt::format("{} {}", name, count));
  };
  add("NaN", statistics.nan);
  add("inf", statistics.inf);
  add("dead rows", statistics.dead_rows);
  if (statistics.finite && statistics.finite->moments.count() > 1 &&
      statistics.finite->moments.min() == statistics.finite->moments.max())
    flags.emplace_back("constant");
  if (statistics.is_sample())
    flags.push_back(fmt::format(
        "sampled {:.2g} %", 100.0 * static_cast<double>(statistics.count) / static_cast<double>(statistics.elements)));
  std::string out;
  for (const std::string& flag : flags) out += (out.empty() ? "" : ", ") + flag;
  return out;
}

Row row_of(const TensorFigures& one) {
  return {one.name, std::string(dtype_text(one.tensor)),
          one.statistics ? one.statistics->elements : elements_of(one.tensor.shape).value_or(0),
          one.statistics ? &*one.statistics : nullptr, one.statistics ? "" : one.statistics.error().message};
}

Row row_of(const GroupFigures& group) { return {group.name, "", group.statistics.elements, &group.statistics, ""}; }

std::span<const Column> columns() {
  static const std::vector<Column> all = make_columns();
  return all;
}

}  // namespace weightfs::stats
