#include "cli/stats/figures.h"

#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>

#include "base/text.h"
#include "cli/compare/select_tensors.h"
#include "numbers/factors.h"

namespace weightfs::stats {
namespace {

using numbers::Elements;
using numbers::Figures;

constexpr size_t kMaxSmall = 4;  // small tensors that are in memory at once

// A tensor to read.
struct Work {
  size_t index;  // in AllFigures::tensors
  Elements elements;
};

class Computation {
 public:
  Computation(const std::vector<compare::FoundModel>& models, const std::vector<compare::TensorPlace>& selected,
              const FigureOptions& options)
      : models_(models), selected_(selected), options_(options) {}

  Result<AllFigures> run() {
    prepare();
    std::vector<TensorView> tensors;
    for (const Work& work : work_) tensors.push_back(out_.tensors[work.index].tensor);
    TRY_VOID(check_amount(tensors, total_));
    // Small tensors are divided among the processors as a whole, large ones by their chunks.
    std::vector<const Work*> small;
    for (const Work& work : work_)
      if (work.elements.count() <= Elements::kMinChunk) small.push_back(&work);
    TRY_VOID(
        in_parallel(small.size(), std::min(options_.statistics.threads, kMaxSmall), [&](uint64_t i) -> Result<void> {
          compute(*small[static_cast<size_t>(i)], 1);
          return {};
        }));
    for (const Work& work : work_)
      if (work.elements.count() > Elements::kMinChunk) compute(work, options_.statistics.threads);
    add_groups();
    return std::move(out_);
  }

 private:
  void prepare() {
    for (const compare::TensorPlace& place : selected_) {
      const compare::FoundModel& found = models_[place.model];
      const TensorView tensor = found.model->tensors[place.index];
      auto elements = Elements::of(tensor);
      const Error error = elements ? Error() : elements.error();
      out_.tensors.push_back(
          {full_name(found, tensor), tensor, found.model->tensors.is_refused(place.index), tl::unexpected(error)});
      if (!elements) continue;
      const uint64_t bytes = bytes_to_read(*elements, tensor.shape, options_.statistics);
      total_ = bytes > UINT64_MAX - total_ ? UINT64_MAX : total_ + bytes;
      work_.push_back({out_.tensors.size() - 1, std::move(*elements)});
    }
  }

  void compute(const Work& work, size_t threads) {
    TensorFigures& one = out_.tensors[work.index];
    const std::string name = quoted(one.name);
    const auto count_bytes = [&](uint64_t bytes) { options_.report(done_.fetch_add(bytes) + bytes, total_, name); };
    numbers::StatisticsOptions options = options_.statistics;
    options.threads = threads;
    auto figures = figures_of(work.elements, one.tensor.shape, options, count_bytes);
    if (!figures) {
      one.statistics = tl::unexpected(figures.error());
      return;
    }
    one.statistics = figures->statistics;
    if (auto more = compute_more(work, threads, one); !more) one.statistics = tl::unexpected(more.error());
    const std::lock_guard lock(mutex_);
    counts_.add(figures->distribution);
  }

  Result<void> compute_more(const Work& work, size_t threads, TensorFigures& one) {
    if (options_.scales) one.scales = TRY(numbers::scale_statistics_of(one.tensor, threads, [](uint64_t) {}));
    if (options_.singular_values) {
      const std::lock_guard lock(large_mutex_);
      one.singular_values = numbers::singular_values(one.tensor);
    }
    if (!options_.channels || work.elements.count() == 0) return {};
    for (size_t axis = 0; axis < one.tensor.shape.size(); ++axis) {
      const bool is_wanted = options_.axis ? axis == *options_.axis : axis == 0 || axis + 1 == one.tensor.shape.size();
      if (!is_wanted || one.tensor.shape.size() < 2) continue;
      auto channels = channels_of(work.elements, one.tensor.shape, axis, threads, [](uint64_t) {});
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
  void add_groups() {
    numbers::Totals all;
    std::map<std::string, std::pair<size_t, numbers::Totals>> layers;  // with the place of the first tensor
    for (size_t i = 0; i < out_.tensors.size(); ++i) {
      const TensorFigures& one = out_.tensors[i];
      if (!one.statistics) continue;
      all.add(*one.statistics);
      const std::string layer = layer_of(one.name);
      if (!layer.empty()) layers.try_emplace(layer, i, numbers::Totals()).first->second.second.add(*one.statistics);
    }
    const numbers::Distribution distribution = counts_.distribution();
    out_.total = {"total", all.tensors(), all.statistics(&distribution, options_.statistics.threshold)};
    std::vector<std::pair<size_t, GroupFigures>> sorted;
    for (const auto& [name, layer] : layers)
      sorted.emplace_back(layer.first, GroupFigures{name, layer.second.tensors(), layer.second.statistics()});
    std::ranges::sort(sorted, {}, &std::pair<size_t, GroupFigures>::first);
    for (auto& [first, group] : sorted) out_.layers.push_back(std::move(group));
  }

  const std::vector<compare::FoundModel>& models_;
  const std::vector<compare::TensorPlace>& selected_;
  const FigureOptions& options_;
  AllFigures out_;
  std::vector<Work> work_;
  uint64_t total_ = 0;  // bytes to read
  std::atomic<uint64_t> done_ = 0;
  std::mutex large_mutex_;  // one computation at a time has a whole matrix in memory
  std::mutex mutex_;        // guards counts_
  numbers::Counts counts_ = numbers::Counts(numbers::Form::floats);
};

}  // namespace

Result<AllFigures> compute_figures(const std::vector<compare::FoundModel>& models,
                                   const std::vector<compare::TensorPlace>& selected, const FigureOptions& options) {
  return Computation(models, selected, options).run();
}

}  // namespace weightfs::stats
