#include "cli/compare/deviation.h"

#include <array>
#include <atomic>
#include <cmath>

namespace weightfs::compare {
namespace {

// Sums of one block.
struct Lanes {
  std::array<double, kLanes> max{};
  std::array<double, kLanes> sum{};
  std::array<double, kLanes> product{};
  std::array<double, kLanes> square_a{};
  std::array<double, kLanes> square_b{};
  std::array<double, kLanes> differing{};  // a count below 2^53
  std::array<double, kLanes> nan{};

  void add(size_t lane, double a, double b) {
    const double difference = a == b ? 0 : std::abs(a - b);  // NaN if one of them is
    const bool is_number = difference == difference;
    const bool are_both_nan = a != a && b != b;
    max[lane] = difference > max[lane] ? difference : max[lane];
    sum[lane] += is_number ? difference : 0;
    product[lane] += is_number ? a * b : 0;
    square_a[lane] += is_number ? a * a : 0;
    square_b[lane] += is_number ? b * b : 0;
    differing[lane] += a == b || are_both_nan ? 0 : 1;
    nan[lane] += is_number ? 0 : 1;
  }
};

uint64_t total(const std::array<double, kLanes>& lanes) {
  double sum = 0;
  for (const double lane : lanes) sum += lane;
  return static_cast<uint64_t>(sum);
}

void add_to(ExactSum& sum, const std::array<double, kLanes>& lanes) {
  for (const double lane : lanes) sum.add(lane);
}

}  // namespace

void Deviation::add(std::span<const double> a, std::span<const double> b) {
  Lanes lanes;
  const size_t whole = a.size() / kLanes * kLanes;
  for (size_t i = 0; i < whole; i += kLanes)
    for (size_t lane = 0; lane < kLanes; ++lane) lanes.add(lane, a[i + lane], b[i + lane]);
  for (size_t i = whole; i < a.size(); ++i) lanes.add(i - whole, a[i], b[i]);
  count_ += a.size();
  differing_ += total(lanes.differing);
  nan_ += total(lanes.nan);
  max_ = std::max(max_, *std::max_element(lanes.max.begin(), lanes.max.end()));
  add_to(sum_, lanes.sum);
  add_to(product_, lanes.product);
  add_to(square_a_, lanes.square_a);
  add_to(square_b_, lanes.square_b);
}

void Deviation::add(const Deviation& other) {
  count_ += other.count_;
  differing_ += other.differing_;
  nan_ += other.nan_;
  max_ = std::max(max_, other.max_);
  sum_.add(other.sum_);
  product_.add(other.product_);
  square_a_.add(other.square_a_);
  square_b_.add(other.square_b_);
}

std::optional<double> Deviation::mean() const {
  if (count_ == nan_) return std::nullopt;
  return sum_.value() / static_cast<double>(count_ - nan_);
}

std::optional<double> Deviation::cosine() const {
  const double length = std::sqrt(square_a_.value()) * std::sqrt(square_b_.value());
  if (length == 0 || !std::isfinite(length)) return std::nullopt;
  return std::clamp(product_.value() / length, -1.0, 1.0);
}

tl::expected<Deviation, SideError> deviation_of(const Numbers& a, const Numbers& b, size_t threads,
                                                const CountBytes& count_bytes) {
  std::vector<Deviation> parts(static_cast<size_t>(a.chunks()));
  std::atomic<Side> failed = Side::a;
  const auto compare_chunk = [&](uint64_t chunk) -> Result<void> {
    std::vector<double> others(static_cast<size_t>(std::min<uint64_t>(Numbers::kBlock, b.count())));
    uint64_t first = chunk * a.chunk_size();
    return a.for_each_block(chunk, count_bytes, [&](std::span<const double> values) -> Result<void> {
      const auto same = std::span(others).first(values.size());
      if (auto read = b.read(first, same); !read) {
        failed = Side::b;
        return read;
      }
      parts[static_cast<size_t>(chunk)].add(values, same);
      first += values.size();
      return {};
    });
  };
  if (auto compared = in_parallel(parts.size(), threads, compare_chunk); !compared)
    return tl::unexpected(SideError{failed, compared.error()});
  Deviation all;
  for (const Deviation& part : parts) all.add(part);
  return all;
}

}  // namespace weightfs::compare
