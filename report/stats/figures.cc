#include "report/stats/figures.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <span>
#include <unordered_map>

#include "base/cancel.h"
#include "base/text.h"
#include "numbers/factors.h"
#include "report/compare/select_tensors.h"

namespace weightfs::stats {
namespace {

using numbers::Elements;

constexpr size_t kMaxSmall = 4;  // small tensors that are in memory at once
constexpr size_t kBatch = 512;   // tensors whose figures are in memory at once

class Computation {
 public:
  Computation(const std::vector<compare::FoundModel>& models, const std::vector<compare::TensorPlace>& selected,
              const FigureOptions& options, const UseTensor& use)
      : models_(models), selected_(selected), options_(options), use_(use) {}

  Result<AllGroups> run() {
    TRY_VOID(add_costs());
    for (size_t first = 0; first < selected_.size(); first += kBatch) {
      std::vector<TensorFigures> batch =
          TRY(compute_batch(std::span(selected_).subspan(first, std::min(kBatch, selected_.size() - first))));
      for (TensorFigures& one : batch) {
        add_to_groups(one);
        TRY_VOID(use_(std::move(one)));
      }
    }
    return groups();
  }

 private:
  Result<void> add_costs() {
    for (const compare::TensorPlace& place : selected_) {
      const TensorView tensor = models_[place.model].model->tensors[place.index];
      const auto elements = Elements::of(tensor);
      if (elements) cost_.add(tensor, bytes_to_read(*elements, tensor.shape, options_.statistics));
    }
    return cost_.check();
  }

  Result<std::vector<TensorFigures>> compute_batch(std::span<const compare::TensorPlace> places) {
    std::vector<TensorFigures> batch;
    std::vector<size_t> small, large;
    for (const compare::TensorPlace& place : places) {
      const compare::FoundModel& found = models_[place.model];
      const TensorView tensor = found.model->tensors[place.index];
      const bool is_small = element_count(tensor.shape) <= Elements::kMinChunk;
      (is_small ? small : large).push_back(batch.size());
      batch.push_back({full_name(found, tensor), tensor, found.model->tensors.is_refused(place.index), {}});
    }
    // Small tensors are divided among the processors as a whole, large ones by their chunks.
    TRY_VOID(in_parallel(small.size(), std::min(options_.statistics.threads, kMaxSmall),
                         [&](uint64_t i) -> Result<void> { return compute(batch[small[static_cast<size_t>(i)]], 1); }));
    for (const size_t i : large) TRY_VOID(compute(batch[i], options_.statistics.threads));
    return batch;
  }

  // Fails only when it is cancelled: other errors are part of the figures.
  Result<void> compute(TensorFigures& one, size_t threads) {
    if (is_cancelled()) return cancelled();
    const auto elements = Elements::of(one.tensor);
    if (!elements) {
      one.statistics = tl::unexpected(elements.error());
      return {};
    }
    const std::string name = quoted(one.name);
    const auto count_bytes = [&](uint64_t bytes) {
      options_.report(done_.fetch_add(bytes) + bytes, cost_.bytes(), name);
    };
    numbers::StatisticsOptions options = options_.statistics;
    options.threads = threads;
    auto figures = figures_of(*elements, one.tensor.shape, options, count_bytes);
    if (!figures) {
      one.statistics = tl::unexpected(figures.error());
      return {};
    }
    one.statistics = std::move(figures->statistics);
    if (auto more = compute_more(*elements, threads, one); !more) one.statistics = tl::unexpected(more.error());
    const std::lock_guard lock(mutex_);
    counts_.add(figures->distribution);
    return {};
  }

  Result<void> compute_more(const Elements& elements, size_t threads, TensorFigures& one) {
    if (options_.scales) one.scales = TRY(numbers::scale_statistics_of(one.tensor, threads, [](uint64_t) {}));
    if (options_.singular_values) {
      const std::lock_guard lock(large_mutex_);
      one.singular_values = numbers::singular_values(one.tensor);
    }
    if (!options_.channels || elements.count() == 0) return {};
    for (size_t axis = 0; axis < one.tensor.shape.size(); ++axis) {
      const bool is_wanted = options_.axis ? axis == *options_.axis : axis == 0 || axis + 1 == one.tensor.shape.size();
      if (!is_wanted || one.tensor.shape.size() < 2) continue;
      auto channels = channels_of(elements, one.tensor.shape, axis, threads, [](uint64_t) {});
      if (!channels && channels.error().code == Code::unsupported) {
        one.no_channels = channels.error().message;
        continue;
      }
      if (!channels) return tl::unexpected(channels.error());
      AxisChannels found{axis, 0, std::move(*channels)};
      found.dead = static_cast<uint64_t>(std::ranges::count(found.largest, 0.0, &numbers::Channel::max));
      std::ranges::stable_sort(found.largest, std::ranges::greater(), &numbers::Channel::max);
      if (found.largest.size() > options_.largest) found.largest.resize(options_.largest);
      one.channels.push_back(std::move(found));
    }
    return {};
  }

  // In the order of the tensors, so that the result does not depend on the threads.
  void add_to_groups(const TensorFigures& one) {
    if (!one.statistics) return;
    all_.add(*one.statistics);
    const std::string layer = layer_of(one.name);
    if (layer.empty()) return;
    const auto [place, is_new] = layers_.try_emplace(layer, layer_totals_.size());
    if (is_new) layer_totals_.emplace_back(layer, numbers::Totals());
    layer_totals_[place->second].second.add(*one.statistics);
  }

  AllGroups groups() const {
    const numbers::Distribution distribution = counts_.distribution();
    AllGroups out;
    out.total = {"total", all_.tensors(), all_.statistics(&distribution, options_.statistics.threshold)};
    for (const auto& [name, layer] : layer_totals_) out.layers.push_back({name, layer.tensors(), layer.statistics()});
    return out;
  }

  const std::vector<compare::FoundModel>& models_;
  const std::vector<compare::TensorPlace>& selected_;
  const FigureOptions& options_;
  const UseTensor& use_;
  FigureCost cost_;
  numbers::Totals all_;
  std::unordered_map<std::string, size_t> layers_;  // places in layer_totals_
  std::vector<std::pair<std::string, numbers::Totals>> layer_totals_;
  std::atomic<uint64_t> done_ = 0;
  std::mutex large_mutex_;  // one computation at a time has a whole matrix in memory
  std::mutex mutex_;        // guards counts_
  numbers::Counts counts_ = numbers::Counts(numbers::Form::floats);
};

}  // namespace

Result<AllGroups> compute_figures(const std::vector<compare::FoundModel>& models,
                                  const std::vector<compare::TensorPlace>& selected, const FigureOptions& options,
                                  const UseTensor& use) {
  return Computation(models, selected, options, use).run();
}

}  // namespace weightfs::stats
