// A number for each tensor, or for each expert, of a model.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <unordered_map>

#include "base/cancel.h"
#include "base/text.h"
#include "numbers/channels.h"
#include "numbers/deviation.h"
#include "numbers/statistics.h"
#include "report/compare/select_tensors.h"
#include "report/plot/make.h"

namespace weightfs::plot {
namespace {

using numbers::Elements;

constexpr size_t kMaxRows = 512;
constexpr size_t kMaxColumns = 128;

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

// Numbers by row and column.
class Sheet {
 public:
  void set(const std::string& row, const std::string& column, double value) {
    values_[{rows_.number_of(row), columns_.number_of(column)}] = value;
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
    for (const auto& [place, value] : values_) {
      if (place.first >= map.rows || place.second >= map.columns) continue;
      map.values[place.first * map.columns + place.second] = value;
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
  std::map<std::pair<size_t, size_t>, double> values_;
};

// From the lowest to the highest finite number.
void set_scale(HeatMap& map, const char* label) {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  for (const double value : map.values) {
    if (!std::isfinite(value)) continue;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  map.scale = {Palette::cividis, low <= high ? low : 0, low <= high ? high : 1};
  map.scale_label = label;
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

// "experts.12." in a name: 12.
std::optional<std::string> expert_of(const std::string& name) {
  constexpr std::string_view kExperts = "experts";
  const size_t at = name.find(kExperts);
  if (at == name.npos || at + kExperts.size() + 1 >= name.size()) return std::nullopt;
  const size_t begin = at + kExperts.size() + 1;
  const size_t end = std::min(name.find_first_of("./", begin), name.size());
  const std::string number = name.substr(begin, end - begin);
  return !number.empty() && number.find_first_not_of("0123456789") == number.npos ? std::optional(number)
                                                                                  : std::nullopt;
}

bool has_stacked_experts(const NamedTensor& named) {
  return named.tensor.shape.size() == 3 &&
         (named.name.find("_exps") != std::string::npos || named.name.find("experts") != std::string::npos);
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
    const auto expert = expert_of(named.name);
    if (!expert && !has_stacked_experts(named)) return {};
    const Elements elements = TRY(Elements::of(named.tensor));
    const std::string layer = layer_of(named.name);
    if (expert) {
      const auto figures = TRY(numbers::figures_of(
          elements, named.tensor.shape, {.sample = choices.sample, .threads = choices.threads}, choices.count_bytes));
      if (!figures.statistics.finite) return {};
      const numbers::Moments& moments = figures.statistics.finite->moments;
      add(layer, *expert, moments.l2() * moments.l2(), static_cast<double>(moments.count()));
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
      sheet.set(layers_.all()[place.first], experts_.all()[place.second], std::sqrt(sum.first / sum.second));
    return sheet;
  }

 private:
  Names layers_;
  Names experts_;
  bool is_cut_ = false;
  std::map<std::pair<size_t, size_t>, std::pair<double, double>> sums_;
};

}  // namespace

Place place_of(const std::string& name) {
  const std::string layer = layer_of(name);
  if (layer.empty()) return {name, "(no layer)"};
  return {layer, name.size() > layer.size() ? name.substr(layer.size() + 1) : ""};
}

bool has_experts(const NamedTensor& tensor) { return expert_of(tensor.name) || has_stacked_experts(tensor); }

Result<HeatMap> overview_of(const std::string& title, const std::vector<NamedTensor>& tensors,
                            const std::vector<NamedTensor>& against, const Choices& choices,
                            const std::function<void(const NamedTensor&, const Error&)>& failed) {
  const Metric metric = choices.metric.value_or(against.empty() ? Metric::rms : Metric::snr);
  if (metric == Metric::snr && against.empty()) return failure(Code::unsupported, "--metric snr needs --against MODEL");
  std::unordered_map<std::string, const NamedTensor*> others;
  for (const NamedTensor& other : against) others.try_emplace(other.name, &other);
  Sheet sheet;
  bool is_sample = false;
  for (const NamedTensor& named : tensors) {
    if (is_cancelled()) return cancelled();
    const auto value =
        metric == Metric::snr ? snr_of(named, others, choices) : figure_of(named, metric, choices, is_sample);
    if (!value) failed(named, value.error());
    const auto [layer, rest] = place_of(named.name);
    sheet.set(layer, rest, value.value_or(kNoNumber));
  }
  HeatMap map = sheet.to_map(title, "tensor", "layer");
  if (is_sample) map.note += map.note.empty() ? "sampled" : ", sampled";
  set_scale(map, label_of(metric));
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
  set_scale(map, "RMS");
  return map;
}

}  // namespace weightfs::plot
