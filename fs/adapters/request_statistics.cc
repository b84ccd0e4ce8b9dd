#include "fs/adapters/request_statistics.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace weightfs {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;

// Step 4p + q holds [2^p + q 2^(p-2), 2^p + (q+1) 2^(p-2)), in nanoseconds.
size_t step_of(uint64_t nanoseconds) {
  const uint64_t at_least_one = std::max<uint64_t>(nanoseconds, 1);
  const auto power = static_cast<size_t>(std::bit_width(at_least_one) - 1);
  const size_t quarter = power >= 2 ? (at_least_one >> (power - 2)) & 3 : (at_least_one << (2 - power)) & 3;
  return std::min(power * 4 + quarter, LatencyHistogram::kSteps - 1);
}

uint64_t end_of(size_t step) {
  const double begin = std::ldexp(1.0, static_cast<int>(step / 4));
  return static_cast<uint64_t>(begin + static_cast<double>(step % 4 + 1) * begin / 4);
}

}  // namespace

void LatencyHistogram::add(std::chrono::nanoseconds took) {
  steps_[step_of(static_cast<uint64_t>(std::max<int64_t>(took.count(), 0)))].fetch_add(1, kRelaxed);
}

LatencyHistogram::Snapshot LatencyHistogram::snapshot() const {
  Snapshot snapshot;
  for (size_t i = 0; i < kSteps; ++i) snapshot.steps_[i] = steps_[i].load(kRelaxed);
  return snapshot;
}

uint64_t LatencyHistogram::Snapshot::count() const { return below_power(kSteps); }

uint64_t LatencyHistogram::Snapshot::below_power(size_t power) const {
  uint64_t count = 0;
  for (size_t i = 0; i < std::min(power * 4, kSteps); ++i) count += steps_[i];
  return count;
}

std::chrono::nanoseconds LatencyHistogram::Snapshot::percentile(double share) const {
  const auto wanted = static_cast<uint64_t>(std::ceil(share * static_cast<double>(count())));
  uint64_t seen = 0;
  for (size_t i = 0; i < kSteps; ++i) {
    seen += steps_[i];
    if (seen > 0 && seen >= wanted) return std::chrono::nanoseconds(end_of(i));
  }
  return std::chrono::nanoseconds(0);
}

void RequestStatistics::Counters::add(std::chrono::nanoseconds duration, bool failed) {
  took.add(duration);
  if (failed) errors.fetch_add(1, kRelaxed);
  const auto nanoseconds = static_cast<uint64_t>(duration.count());
  total_ns.fetch_add(nanoseconds, kRelaxed);
  uint64_t longest = longest_ns.load(kRelaxed);
  while (nanoseconds > longest && !longest_ns.compare_exchange_weak(longest, nanoseconds, kRelaxed)) {
  }
}

RequestStatistics::Request::~Request() {
  counters_.add(std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - begin_), failed_);
  statistics_.active_requests_.fetch_sub(1, std::memory_order_release);
}

RequestStatistics::OperationStats RequestStatistics::stats(size_t operation) const {
  const Counters& counters = counters_[operation];
  return {counters.errors.load(kRelaxed), counters.took.snapshot(),
          std::chrono::nanoseconds(counters.longest_ns.load(kRelaxed)),
          std::chrono::nanoseconds(counters.total_ns.load(kRelaxed))};
}

RequestStatistics::Clock::duration RequestStatistics::idle_time() const {
  if (open_files() > 0 || active_requests_.load(kRelaxed) > 0) return {};
  return Clock::now() - last_use_.load(kRelaxed);
}

}  // namespace weightfs
