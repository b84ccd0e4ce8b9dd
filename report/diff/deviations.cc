#include "report/diff/deviations.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "fs/tree/listing.h"
#include "report/compare/select_tensors.h"
#include "report/text/fitted_table.h"
#include "report/text/map_of.h"
#include "report/text/words.h"

namespace weightfs::compare {
namespace {

using numbers::Deviation;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Cell figure(std::optional<double> value) {
  if (!value) return "";
  return {fmt::format("{:.5g}", *value), fmt::format("{}", *value)};
}

// The index of an element on each axis.
std::vector<uint64_t> place_of(uint64_t index, ShapeView shape) {
  std::vector<uint64_t> place(shape.size());
  for (size_t axis = shape.size(); axis-- > 0; index /= shape[axis]) place[axis] = index % shape[axis];
  return place;
}

std::string place_text(const Deviation& deviation, std::optional<ShapeView> shape) {
  if (!shape || deviation.max() == 0) return "";
  std::string text;
  for (const uint64_t index : place_of(deviation.max_index(), *shape))
    text += fmt::format("{}{}", text.empty() ? "" : ",", index);
  return "[" + text + "]";
}

// What cannot be measured is worse than all numbers.
double badness(const ChangedTensor& changed) {
  if (!changed.deviation) return kInfinity;
  return -changed.deviation->snr_db().value_or(-kInfinity);
}

Value optional_value(std::optional<double> number) {
  return number && std::isfinite(*number) ? Value(*number) : Value(nullptr);
}

bool is_within(const ChangedTensor& changed, const DeviationLimits& limits) {
  if (!changed.deviation) return false;
  const Deviation& deviation = *changed.deviation;
  if (deviation.differing() == 0) return true;
  if (deviation.nan() > 0) return false;
  const double error = deviation.relative_error().value_or(kInfinity);
  if (limits.max_relative_error && !(error <= *limits.max_relative_error)) return false;
  return !limits.min_snr_db || deviation.snr_db().value_or(-kInfinity) >= *limits.min_snr_db;
}

}  // namespace

std::vector<Table::Column> deviation_columns() {
  std::vector<Table::Column> all;
  for (const char* name : {"snr_db", "relative_error", "cosine", "max"}) all.push_back({name, Align::right});
  all.push_back({"at"});
  for (const char* name : {"mean", "differing"}) all.push_back({name, Align::right});
  return all;
}

std::vector<Cell> deviation_cells(const Deviation& deviation, std::optional<ShapeView> shape) {
  const auto max = deviation.has_numbers() ? std::optional(deviation.max()) : std::nullopt;
  return {figure(deviation.snr_db()),           figure(deviation.relative_error()),
          figure(deviation.cosine()),           figure(max),
          place_text(deviation, shape),         figure(deviation.mean()),
          std::to_string(deviation.differing())};
}

Map deviation_value(const Deviation& deviation, std::optional<ShapeView> shape) {
  Map out = map_of({{"count", deviation.count()},
                    {"differing", deviation.differing()},
                    {"nan", deviation.nan()},
                    {"snr_db", optional_value(deviation.snr_db())},
                    {"relative_error", optional_value(deviation.relative_error())},
                    {"rmse", optional_value(deviation.rmse())},
                    {"cosine", optional_value(deviation.cosine())},
                    {"max", deviation.has_numbers() ? Value(deviation.max()) : Value(nullptr)}});
  if (shape && deviation.max() > 0) {
    List place;
    for (const uint64_t index : place_of(deviation.max_index(), *shape)) place.emplace_back(index);
    out.append("max_at", std::move(place));
  }
  out.append("mean", optional_value(deviation.mean()));
  if (deviation.share_within(0)) {
    Map within;
    for (size_t i = 0; i < numbers::kUlps.size(); ++i)
      within.append(std::to_string(numbers::kUlps[i]), *deviation.share_within(i));
    out.append("share_within_ulps", std::move(within));
  }
  return out;
}

List differences_by_exponent(const std::vector<numbers::Octave>& differences) {
  List out;
  for (const numbers::Octave& octave : differences)
    out.emplace_back(map_of({{"exponent", octave.exponent}, {"count", octave.positive}}));
  return out;
}

std::vector<LayerDeviation> layer_deviations(const ContentsComparison& found) {
  std::map<std::string, LayerDeviation> layers;
  for (const ModelComparison& models : found.models) {
    for (const ChangedTensor& changed : models.tensors.changed) {
      const std::string layer = layer_of(full_name(models.a->tensors[changed.pair.a]));
      if (!changed.deviation || layer.empty()) continue;
      const std::string name = join_path(models.path, layer);
      LayerDeviation& sum = layers.try_emplace(name, LayerDeviation{name, 0, Deviation()}).first->second;
      ++sum.tensors;
      sum.deviation.add(*changed.deviation);
    }
  }
  std::vector<LayerDeviation> out;
  for (auto& [name, layer] : layers) out.push_back(std::move(layer));
  std::ranges::stable_sort(out, {},
                           [](const LayerDeviation& layer) { return layer.deviation.snr_db().value_or(-kInfinity); });
  return out;
}

Deviation total_deviation(const ContentsComparison& found) {
  Deviation total;
  for (const ModelComparison& models : found.models)
    for (const ChangedTensor& changed : models.tensors.changed)
      if (changed.deviation) total.add(*changed.deviation);
  return total;
}

std::vector<const ChangedTensor*> worst_first(const std::vector<ChangedTensor>& changed) {
  std::vector<const ChangedTensor*> out;
  for (const ChangedTensor& one : changed) out.push_back(&one);
  std::ranges::stable_sort(out, std::ranges::greater(), [](const ChangedTensor* one) { return badness(*one); });
  return out;
}

const std::vector<info::FittedColumn>& screen_columns() {
  static const std::vector<info::FittedColumn> columns = {
      {"tensor", 0, true}, {"types", 4, true}, {"SNR", 1, false},  {"rel. error", 2, false}, {"cosine", 5, false},
      {"max", 3, false},   {"at", 4, true},    {"mean", 6, false}, {"differing", 7, false},  {"", 1, true, true}};
  return columns;
}

std::vector<std::string> screen_row(const std::string& name, const std::string& types, const Deviation* deviation,
                                    std::optional<ShapeView> shape, const std::string& note) {
  std::vector<std::string> row = {name, types};
  if (deviation != nullptr) {
    for (const Cell& cell : deviation_cells(*deviation, shape)) row.push_back(cell.shown);
    if (deviation->count() > 0 && deviation->differing() == 0)
      row[2] = "equal";
    else if (!row[2].empty())
      row[2] += " dB";
  } else {
    row.resize(screen_columns().size() - 1);
  }
  row.push_back(note);
  return row;
}

std::string types_of(const TensorView& a, const TensorView& b) {
  return a.dtype == b.dtype ? std::string(dtype_text(a)) : fmt::format("{} > {}", dtype_text(a), dtype_text(b));
}

std::vector<std::string> deviation_lines(const ContentsComparison& found, const info::Style& style) {
  std::vector<info::FittedRow> tensors, groups;
  for (const ModelComparison& models : found.models) {
    for (const ChangedTensor* const changed : worst_first(models.tensors.changed)) {
      const TensorView a = models.a->tensors[changed->pair.a], b = models.b->tensors[changed->pair.b];
      tensors.push_back(screen_row(info::clean(join_path(models.path, full_name(a)), style), types_of(a, b),
                                   changed->deviation ? &*changed->deviation : nullptr, a.shape,
                                   info::clean(changed->no_deviation, style)));
    }
  }
  if (tensors.empty()) return {};
  const std::vector<LayerDeviation> layers = layer_deviations(found);
  if (layers.size() > 1)
    for (const LayerDeviation& layer : layers)
      groups.push_back(screen_row(info::clean(layer.name, style), "", &layer.deviation, std::nullopt, ""));
  const Deviation total = total_deviation(found);
  if (total.count() > 0) groups.push_back(screen_row("all that differ", "", &total, std::nullopt, ""));
  std::vector<info::FittedColumn> group_columns = screen_columns();
  group_columns.front().name = "layer";
  auto [lines, is_complete] = info::fitted_table(screen_columns(), tensors, style);
  const info::FittedLines grouped = info::fitted_table(group_columns, groups, style);
  if (!grouped.lines.empty()) lines.emplace_back();
  lines.insert(lines.end(), grouped.lines.begin(), grouped.lines.end());
  if (!is_complete || !grouped.is_complete)
    for (std::string& line : info::left_out_lines(style)) lines.push_back(std::move(line));
  return lines;
}

bool are_within(const ContentsComparison& found, const DeviationLimits& limits) {
  const bool has_lone_model = std::ranges::any_of(
      found.files, [](const FileChange& file) { return (file.a && file.a->is_model) || (file.b && file.b->is_model); });
  return !has_lone_model && std::ranges::all_of(found.models, [&](const ModelComparison& models) {
    return models.tensors.missing.empty() && models.tensors.added.empty() && models.tensors.renamed.empty() &&
           std::ranges::all_of(models.tensors.changed,
                               [&](const ChangedTensor& changed) { return is_within(changed, limits); });
  });
}

}  // namespace weightfs::compare
