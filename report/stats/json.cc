// The figures as JSON.
#include <fmt/core.h>

#include "fs/tree/listing.h"
#include "report/stats/screen.h"
#include "report/text/map_of.h"

namespace weightfs::stats {
namespace {

using numbers::FiniteStatistics;
using numbers::ScaleStatistics;
using numbers::Statistics;

template <class Numbers>
List list_of(const Numbers& numbers) {
  List list;
  list.reserve(numbers.size());
  for (const auto number : numbers) list.emplace_back(number);
  return list;
}

Value optional_value(std::optional<double> number) { return number ? Value(*number) : Value(nullptr); }

void append_finite(const FiniteStatistics& of, Map& out) {
  out.append("min", of.moments.min());
  out.append("max", of.moments.max());
  out.append("mean", of.moments.mean());
  out.append("std", of.moments.std());
  out.append("skewness", optional_value(of.moments.skewness()));
  out.append("kurtosis", optional_value(of.moments.kurtosis()));
  out.append("l1", of.moments.l1());
  out.append("l2", of.moments.l2());
  out.append("rms", of.moments.rms());
  if (of.quantiles.empty()) return;
  Map quantiles;
  for (size_t i = 0; i < of.quantiles.size(); ++i)
    quantiles.append(fmt::format("{:g}", 100 * numbers::kQuantiles[i]), of.quantiles[i]);
  out.append("percentiles", std::move(quantiles));
  out.append("exact", of.is_exact);
  out.append("near_zero", of.near_zero);
  if (of.distinct) out.append("distinct", *of.distinct);
  out.append("histogram", list_of(of.histogram));
  List octaves;
  for (const numbers::Octave& octave : of.octaves)
    octaves.emplace_back(
        map_of({{"exponent", octave.exponent}, {"negative", octave.negative}, {"positive", octave.positive}}));
  out.append("log2_histogram", std::move(octaves));
}

void append_statistics(const Statistics& of, Map& out) {
  out.append("count", of.count);
  if (of.is_sample()) out.append("elements", of.elements);
  out.append("zeros", of.zeros);
  out.append("nan", of.nan);
  out.append("inf", of.inf);
  if (of.rows) {
    out.append("rows", *of.rows);
    out.append("dead_rows", of.dead_rows);
  }
  if (of.finite) append_finite(*of.finite, out);
}

Value statistics_value(const Statistics& of) {
  Map out;
  append_statistics(of, out);
  return out;
}

Value channels_value(const AxisChannels& axis) {
  List largest;
  for (const numbers::Channel& channel : axis.largest)
    largest.emplace_back(map_of({{"index", channel.index},
                                 {"rms", channel.rms},
                                 {"max", channel.max},
                                 {"outlier_share", channel.outlier_share}}));
  return map_of({{"axis", axis.axis}, {"dead", axis.dead}, {"largest", std::move(largest)}});
}

void append_singular(const Result<std::vector<double>>& values, Map& out) {
  if (values)
    out.append("singular_values", list_of(*values));
  else
    out.append("no_singular_values", values.error().message);
}

}  // namespace

Map tensor_value(const TensorFigures& one) {
  Map out = map_of({{"name", one.name}, {"dtype", dtype_text(one.tensor)}, {"shape", list_of(one.tensor.shape)}});
  if (!one.statistics) {
    out.append("error", one.statistics.error().message);
    return out;
  }
  append_statistics(*one.statistics, out);
  if (one.scales) {
    out.append("scales", statistics_value(one.scales->scales));
    if (one.scales->minimums) out.append("minimums", statistics_value(*one.scales->minimums));
  }
  if (!one.channels.empty()) {
    List channels;
    for (const AxisChannels& axis : one.channels) channels.push_back(channels_value(axis));
    out.append("channels", std::move(channels));
  }
  if (one.singular_values) append_singular(*one.singular_values, out);
  if (!one.no_channels.empty()) out.append("no_channels", one.no_channels);
  return out;
}

Map lora_value(const LoraFigures& pair) {
  Map out = map_of({{"name", pair.name}, {"rank", pair.rank}});
  if (pair.singular_values) out.append("norm", pair.norm());
  append_singular(pair.singular_values, out);
  return out;
}

Map group_value(const GroupFigures& group) {
  Map out = map_of({{"name", group.name}, {"tensors", group.tensors}});
  append_statistics(group.statistics, out);
  return out;
}

}  // namespace weightfs::stats
