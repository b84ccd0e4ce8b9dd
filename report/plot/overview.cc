// A number for each tensor, or for each expert, of a model.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <unordered_map>

#include "base/cancel.h"
#include "base/text.h"
#include "formats/summary/tensors/tensor_name.h"
#include "numbers/channels.h"
#include "numbers/deviation.h"
#include "numbers/statistics.h"
#include "report/compare/select_tensors.h"
#include "report/plot/cells.h"
#include "report/plot/make.h"
#include "report/text/words.h"

namespace weightfs::plot {
namespace {

using numbers::Elements;

constexpr size_t kMaxRows = kMaxOverviewRows, kMaxColumns = kMaxOverviewColumns;

// Names in the order of their first use.
class Names {
 public:
  size_t number_of(const std::string& name) {
    const auto [place, is_new] = numbers_.try_emplace(name, names_.size());
    if (is_new) names_.push_back(name);
    return place->second;
  }
  const std::vector<std::string>& all() const { return names_; }

 private:
  std::vector<std::string> names_;
  std::unordered_map<std::string, size_t> numbers_;
};

// The number of a cell. Several tensors, which are experts, have one together.
class Pool {
 public:
  void add(Metric metric, double value, double elements) {
    ++tensors_;
    if (std::isnan(value)) return;
    const double all = elements_ + elements;
    const double part = all > 0 ? elements / all : 1;
    elements_ = all;
    if (std::isnan(value_))
      value_ = value;
    else if (metric == Metric::largest || metric == Metric::snr)
      value_ = metric == Metric::snr ? std::min(value_, value) : std::max(value_, value);
    else if (metric == Metric::rms)
      value_ = std::hypot(value_ * std::sqrt(1 - part), value * std::sqrt(part));
    else
      value_ = value_ * (1 - part) + value * part;
  }

  double value() const { return value_; }
  size_t tensors() const { return tensors_; }

 private:
  double value_ = kNoNumber;
  double elements_ = 0;
  size_t tensors_ = 0;
};

// Numbers by row and column.
class Sheet {
 public:
  Pool& at(const std::string& row, const std::string& column) {
    return values_[{rows_.number_of(row), columns_.number_of(column)}];
  }
  bool empty() const { return values_.empty(); }

  HeatMap to_map(const std::string& title, const std::string& right, const std::string& down) const {
    HeatMap map;
    map.rows = std::min(rows_.all().size(), kMaxRows);
    map.columns = std::min(columns_.all().size(), kMaxColumns);
    const bool is_cut = map.rows < rows_.all().size() || map.columns < columns_.all().size();
    map.title = title;
    if (is_cut) map.note = fmt::format("first {} rows and {} columns", map.rows, map.columns);
    map.right = {right, 0, static_cast<double>(map.columns), shown(columns_.all(), map.columns)};
    map.down = {down, 0, static_cast<double>(map.rows), shown(rows_.all(), map.rows)};
    map.values.assign(map.rows * map.columns, kNoNumber);
    map.blank.assign(map.values.size(), true);
    for (const auto& [place, pool] : values_) {
      if (place.first >= map.rows || place.second >= map.columns) continue;
      map.values[place.first * map.columns + place.second] = pool.value();
      map.blank[place.first * map.columns + place.second] = false;
    }
    return map;
  }

 private:
  static std::vector<std::string> shown(const std::vector<std::string>& names, size_t count) {
    std::vector<std::string> out;
    for (size_t i = 0; i < count; ++i) out.push_back(printable(names[i]));
    return out;
  }

  Names rows_;
  Names columns_;
  std::map<std::pair<size_t, size_t>, Pool> values_;
};

// From the lowest to the highest finite number; by ratios if all are magnitudes, which may differ a lot.
void set_scale(HeatMap& map, const char* label, bool are_magnitudes) {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  for (const double value : map.values) {
    if (!std::isfinite(value)) continue;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  map.scale = {Palette::cividis, low <= high ? low : 0, low <= high ? high : 1};
  map.scale_label = label;
  constexpr double kManyTimes = 4;
  map.scale.is_log = are_magnitudes && low > 0 && high / low > kManyTimes && std::isfinite(high / low);
  if (map.scale.is_log) map.scale_label += ", logarithmic";
}

Result<double> snr_of(const NamedTensor& named, const std::unordered_map<std::string, const NamedTensor*>& others,
                      const Choices& choices) {
  const auto other = others.find(named.name);
  TRY_VOID(check_counterpart(named, other == others.end() ? nullptr : other->second));
  const Elements a = TRY(Elements::of(named.tensor)), b = TRY(Elements::of(other->second->tensor));
  const auto deviation = numbers::deviation_of(a, b, std::nullopt, choices.threads, choices.count_bytes);
  if (!deviation) return tl::unexpected(deviation.error().error);
  constexpr double kMost = 150;  // dB: equal float32
  return std::min(deviation->deviation.snr_db().value_or(kNoNumber), kMost);
}

Result<double> figure_of(const NamedTensor& named, Metric metric, const Choices& choices, bool& is_sample) {
  const Elements elements = TRY(Elements::of(named.tensor));
  if (metric == Metric::bits)
    return elements.count() == 0
               ? kNoNumber
               : 8.0 * static_cast<double>(named.tensor.nbytes()) / static_cast<double>(elements.count());
  const auto figures = TRY(numbers::figures_of(
      elements, named.tensor.shape, {.sample = choices.sample, .threads = choices.threads}, choices.count_bytes));
  const numbers::Statistics& statistics = figures.statistics;
  is_sample = is_sample || statistics.is_sample();
  if (metric == Metric::sparsity)
    return statistics.count == 0 ? kNoNumber
                                 : static_cast<double>(statistics.zeros) / static_cast<double>(statistics.count);
  if (!statistics.finite) return kNoNumber;
  const numbers::Moments& moments = statistics.finite->moments;
  if (metric == Metric::largest) return std::max(-moments.min(), moments.max());
  return metric == Metric::mean ? moments.mean() : moments.rms();
}

bool has_stacked_experts(const NamedTensor& named) {
  return named.tensor.shape.size() == 3 && summary::has_word_of_experts(named.name);
}

// Squares and counts of the experts of each layer.
class ExpertSums {
 public:
  // A picture has no more rows and columns than these.
  void add(const std::string& layer, const std::string& expert, double square, double count) {
    const size_t row = layers_.number_of(layer), column = experts_.number_of(expert);
    if (row >= kMaxRows || column >= kMaxColumns) {
      is_cut_ = true;
      return;
    }
    auto& [squares, counts] = sums_.try_emplace({row, column}).first->second;
    squares += square;
    counts += count;
  }

  Result<void> add(const NamedTensor& named, const Choices& choices) {
    const auto expert = summary::expert_in(named.name);
    if (!expert && !has_stacked_experts(named)) return {};
    const Elements elements = TRY(Elements::of(named.tensor));
    const std::string layer = layer_of(named.name);
    if (expert) {
      const auto figures = TRY(numbers::figures_of(
          elements, named.tensor.shape, {.sample = choices.sample, .threads = choices.threads}, choices.count_bytes));
      if (!figures.statistics.finite) return {};
      const numbers::Moments& moments = figures.statistics.finite->moments;
      add(layer, std::string(*expert), moments.l2() * moments.l2(), static_cast<double>(moments.count()));
      return {};
    }
    const auto each = static_cast<double>(named.tensor.shape[1]) * static_cast<double>(named.tensor.shape[2]);
    for (const numbers::Channel& channel :
         TRY(numbers::channels_of(elements, named.tensor.shape, 0, choices.threads, choices.count_bytes)))
      if (channel.index < kMaxColumns)
        add(layer, std::to_string(channel.index), channel.rms * channel.rms * each, each);
    is_cut_ = is_cut_ || named.tensor.shape[0] > kMaxColumns;
    return {};
  }

  bool is_cut() const { return is_cut_; }

  Sheet sheet() const {
    Sheet sheet;
    for (const auto& [place, sum] : sums_)
      sheet.at(layers_.all()[place.first], experts_.all()[place.second])
          .add(Metric::rms, std::sqrt(sum.first / sum.second), sum.second);
    return sheet;
  }

 private:
  Names layers_;
  Names experts_;
  bool is_cut_ = false;
  std::map<std::pair<size_t, size_t>, std::pair<double, double>> sums_;
};

// Whether an overview of matrices and vectors shows only the matrices: SNR and sparsity have one scale for both.
bool leaves_vectors_out(const std::vector<NamedTensor>& tensors, Metric metric, const Choices& choices) {
  if (choices.keeps_vectors || metric == Metric::snr || metric == Metric::sparsity) return false;
  const auto is_matrix = [](const NamedTensor& named) { return !is_vector(named.tensor.shape); };
  const bool has_vector = !std::ranges::all_of(tensors, is_matrix);
  return has_vector && std::ranges::any_of(tensors, is_matrix);
}

std::string note_of(const std::string& of_sheet, bool is_without_vectors, bool is_sample) {
  std::vector<std::string> notes;
  if (!of_sheet.empty()) notes.push_back(of_sheet);
  if (is_without_vectors) notes.emplace_back("without tensors of one dimension");
  if (is_sample) notes.emplace_back("sampled");
  return enumerated(notes);
}

}  // namespace

bool is_vector(ShapeView shape) {
  return std::ranges::count_if(shape, [](uint64_t size) { return size != 1; }) < 2;
}

Place place_of(const std::string& name) {
  const std::string layer = layer_of(name);
  if (layer.empty()) return {name, "(no layer)"};
  std::string rest = name.size() > layer.size() ? name.substr(layer.size() + 1) : "";
  if (const auto expert = summary::expert_in(rest))
    rest.replace(static_cast<size_t>(expert->data() - rest.data()), expert->size(), "*");
  return {layer, rest};
}

bool has_experts(const NamedTensor& tensor) { return summary::expert_in(tensor.name) || has_stacked_experts(tensor); }

Result<HeatMap> overview_of(const std::string& title, const std::vector<NamedTensor>& tensors,
                            const std::vector<NamedTensor>& against, const Choices& choices,
                            const std::function<void(const NamedTensor&, const Error&)>& failed) {
  const Metric metric = choices.metric.value_or(against.empty() ? Metric::rms : Metric::snr);
  if (metric == Metric::snr && against.empty()) return failure(Code::unsupported, "--metric snr needs --against MODEL");
  std::unordered_map<std::string, const NamedTensor*> others;
  for (const NamedTensor& other : against) others.try_emplace(other.name, &other);
  if (metric == Metric::type) return failure(Code::unsupported, "types are those of Cells");
  const bool is_without_vectors = leaves_vectors_out(tensors, metric, choices);
  Sheet sheet;
  bool is_sample = false;
  for (const NamedTensor& named : tensors) {
    if (is_cancelled()) return cancelled();
    if (is_without_vectors && is_vector(named.tensor.shape)) continue;
    const auto [layer, rest] = place_of(named.name);
    Pool& pool = sheet.at(layer, rest);
    if (choices.sample && pool.tensors() >= kSampledExperts && summary::expert_in(named.name)) continue;
    const auto value =
        metric == Metric::snr ? snr_of(named, others, choices) : figure_of(named, metric, choices, is_sample);
    if (!value) failed(named, value.error());
    pool.add(metric, value.value_or(kNoNumber), static_cast<double>(elements_of(named.tensor.shape).value_or(0)));
  }
  HeatMap map = sheet.to_map(title, "tensor", "layer");
  map.note = note_of(map.note, is_without_vectors, is_sample);
  set_scale(map, label_of(metric), metric == Metric::rms || metric == Metric::largest);
  return map;
}

Result<HeatMap> experts_of(const std::string& title, const std::vector<NamedTensor>& tensors, const Choices& choices,
                           const std::function<void(const NamedTensor&, const Error&)>& failed) {
  ExpertSums sums;
  for (const NamedTensor& named : tensors) {
    if (is_cancelled()) return cancelled();
    if (const auto added = sums.add(named, choices); !added) failed(named, added.error());
  }
  const Sheet sheet = sums.sheet();
  if (sheet.empty()) return failure(Code::not_found, "no tensors of experts");
  HeatMap map = sheet.to_map(title, "expert", "layer");
  if (sums.is_cut()) map.note = fmt::format("first {} layers and {} experts", kMaxRows, kMaxColumns);
  set_scale(map, "RMS", /*are_magnitudes=*/true);
  return map;
}

}  // namespace weightfs::plot
