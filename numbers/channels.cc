#include "numbers/channels.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "numbers/kernels.h"

namespace weightfs::numbers {
namespace {

constexpr double kOutlier = 6;  // times the RMS of the tensor

uint64_t product(std::span<const uint64_t> sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), uint64_t{1}, std::multiplies<>());
}

// Calls `use(channel, part)` for the runs of a block that are in one channel.
template <class T, class Use>
void for_each_run(uint64_t first, std::span<const T> block, uint64_t inner, uint64_t channels, const Use& use) {
  while (!block.empty()) {
    const auto part = block.first(static_cast<size_t>(std::min<uint64_t>(block.size(), inner - first % inner)));
    use(static_cast<size_t>(first / inner % channels), part);
    first += part.size();
    block = block.subspan(part.size());
  }
}

// How many elements of each channel are outliers, or not finite.
struct Outliers {
  std::vector<uint64_t> counts;
  std::vector<uint64_t> not_finite;

  void add(const Outliers& other) {
    for (size_t i = 0; i < counts.size(); ++i) {
      counts[i] += other.counts[i];
      not_finite[i] += other.not_finite[i];
    }
  }
};

}  // namespace

Channels::Channels(ShapeView shape, size_t axis)
    : inner_(product(shape.subspan(axis + 1))),
      outer_(product(shape.first(axis))),
      squares_(static_cast<size_t>(shape[axis])),
      most_(static_cast<size_t>(shape[axis])) {}

template <class T>
void Channels::add_finite(uint64_t first, std::span<const T> block) {
  if (inner_ == 1) {
    while (!block.empty()) {  // one element of each channel after the other
      const auto channel = static_cast<size_t>(first % squares_.size());
      const auto part = block.first(std::min(block.size(), squares_.size() - channel));
      add_columns(part, &squares_[channel], &most_[channel]);
      first += part.size();
      block = block.subspan(part.size());
    }
    return;
  }
  for_each_run(first, block, inner_, squares_.size(), [&](size_t channel, std::span<const T> part) {
    const BlockSums sums = sums_of(part);
    squares_[channel] += powers_of(part, 0).second;
    most_[channel] = std::max({most_[channel], -sums.min, sums.max});
  });
}

template <class T>
void Channels::add_block(uint64_t first, std::span<const T> block) {
  if (count_not_finite(block) == 0) return add_finite(first, block);
  std::vector<T> finite(block.begin(), block.end());
  for (T& value : finite)
    if (!std::isfinite(value)) value = 0;
  add_finite(first, std::span<const T>(finite));
}

void Channels::add(uint64_t first, std::span<const float> block) { add_block(first, block); }
void Channels::add(uint64_t first, std::span<const double> block) { add_block(first, block); }

void Channels::add(const Channels& other) {
  for (size_t i = 0; i < squares_.size(); ++i) {
    squares_[i] += other.squares_[i];
    most_[i] = std::max(most_[i], other.most_[i]);
  }
}

double Channels::rms(size_t channel) const {
  return std::sqrt(squares_[channel] / (static_cast<double>(inner_) * static_cast<double>(outer_)));
}

double Channels::rms_of_all() const {
  const double sum = std::accumulate(squares_.begin(), squares_.end(), 0.0);
  return std::sqrt(sum / static_cast<double>(squares_.size()) / static_cast<double>(inner_) /
                   static_cast<double>(outer_));
}

size_t threads_for_channels(uint64_t channels, size_t threads) {
  constexpr uint64_t kMemory = uint64_t{24} << 20;
  const uint64_t each = std::max<uint64_t>(channels, 1) * 2 * sizeof(double);
  return static_cast<size_t>(std::clamp<uint64_t>(kMemory / each, 1, threads));
}

Result<std::vector<Channel>> channels_of(const Elements& elements, ShapeView shape, size_t axis, size_t threads,
                                         const CountBytes& count_bytes) {
  if (shape[axis] > kMaxChannels)
    return failure(Code::unsupported,
                   fmt::format("axis {} has {} channels; at most {} are supported", axis, shape[axis], kMaxChannels));
  const std::vector<ElementRange> chunks = elements.chunks();
  const size_t workers = threads_for_channels(shape[axis], threads);
  const auto add = [](Channels& sums, uint64_t first, auto block) { sums.add(first, block); };
  const auto make = [&] { return Channels(shape, axis); };
  const Channels total = TRY(sum_over<Channels>(elements, chunks, workers, count_bytes, make, add));
  const double limit = kOutlier * total.rms_of_all();
  const uint64_t inner = product(shape.subspan(axis + 1));
  const auto count = [&](Outliers& outliers, uint64_t first, auto block) {
    for_each_run(first, block, inner, total.size(), [&](size_t channel, auto part) {
      for (const auto value : part) {
        const double magnitude = std::abs(static_cast<double>(value));
        if (magnitude <= limit) continue;
        ++(std::isfinite(magnitude) ? outliers.counts : outliers.not_finite)[channel];
      }
    });
  };
  const auto none = [&] { return Outliers{std::vector<uint64_t>(total.size()), std::vector<uint64_t>(total.size())}; };
  const Outliers counted = TRY(sum_over<Outliers>(elements, chunks, workers, count_bytes, none, count));
  const auto each = static_cast<double>(elements.count()) / static_cast<double>(std::max<size_t>(total.size(), 1));
  std::vector<Channel> out;
  for (size_t i = 0; i < total.size(); ++i)
    out.push_back(
        {i, total.rms(i), total.max(i), static_cast<double>(counted.counts[i]) / each, counted.not_finite[i]});
  return out;
}

}  // namespace weightfs::numbers
