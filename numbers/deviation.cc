#include "numbers/deviation.h"

#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <tuple>

namespace weightfs::numbers {
namespace {

struct FloatType {
  std::string_view dtype;
  Precision precision;
};

constexpr std::array kFloatTypes = {FloatType{"bfloat16", {7, -126}},    FloatType{"float16", {10, -14}},
                                    FloatType{"float32", {23, -126}},    FloatType{"float64", {52, -1022}},
                                    FloatType{"float8_e4m3", {3, -6}},   FloatType{"float8_e4m3b11fnuz", {3, -10}},
                                    FloatType{"float8_e4m3fn", {3, -6}}, FloatType{"float8_e4m3fnuz", {3, -7}},
                                    FloatType{"float8_e5m2", {2, -14}},  FloatType{"float8_e5m2fnuz", {2, -15}}};

// The distance of the numbers next to one of this magnitude.
double ulp_of(double magnitude, const Precision& precision) {
  const int exponent = magnitude > 0 ? std::max(std::ilogb(magnitude), precision.min_exponent) : precision.min_exponent;
  return std::ldexp(1.0, exponent - precision.mantissa_bits);
}

// Reads blocks of two tensors side by side, as floats if both have these, else as doubles.
template <class Use>
tl::expected<void, SideError> for_each_pair(const Elements& a, const Elements& b, size_t threads,
                                            const CountBytes& count_bytes, const Use& use) {
  const std::vector<ElementRange> chunks = a.chunks();
  const bool are_doubles = a.form() == Form::doubles || b.form() == Form::doubles;
  std::atomic<Side> failed = Side::a;
  const auto compare = [&]<class T>(const ElementRange& range, size_t chunk, std::vector<T> values_a) -> Result<void> {
    std::vector<T> values_b(values_a.size());
    for (uint64_t done = 0; done < range.count; done += values_a.size()) {
      const auto size = static_cast<size_t>(std::min<uint64_t>(values_a.size(), range.count - done));
      const auto block_a = std::span(values_a).first(size), block_b = std::span(values_b).first(size);
      TRY_VOID(a.read(range.first + done, block_a));
      if (auto read = b.read(range.first + done, block_b); !read) {
        failed = Side::b;
        return read;
      }
      use(chunk, range.first + done, std::span<const T>(block_a), std::span<const T>(block_b));
      count_bytes(a.bytes(size));
    }
    return {};
  };
  auto compared = in_parallel(chunks.size(), threads, [&](uint64_t i) {
    const ElementRange& range = chunks[static_cast<size_t>(i)];
    const auto size = static_cast<size_t>(std::min<uint64_t>(Elements::kBlock, range.count));
    if (are_doubles) return compare(range, static_cast<size_t>(i), std::vector<double>(size));
    return compare(range, static_cast<size_t>(i), std::vector<float>(size));
  });
  if (!compared) return tl::unexpected(SideError{failed, compared.error()});
  return {};
}

template <class T>
std::vector<float> absolute_differences(std::span<const T> a, std::span<const T> b) {
  std::vector<float> out(a.size());
  for (size_t i = 0; i < a.size(); ++i)
    out[i] = static_cast<float>(std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
  return out;
}

}  // namespace

std::optional<Precision> precision_of(const DType& dtype) {
  const auto row = std::ranges::find(kFloatTypes, dtype.name, &FloatType::dtype);
  return row == kFloatTypes.end() ? std::nullopt : std::optional(row->precision);
}

std::optional<Precision> worse_precision(const DType& a, const DType& b) {
  const auto of_a = precision_of(a), of_b = precision_of(b);
  if (!of_a || !of_b) return std::nullopt;
  return of_a->mantissa_bits <= of_b->mantissa_bits ? of_a : of_b;
}

void Deviation::raise_max(double difference, uint64_t index) {
  if (!(difference > max_)) return;
  max_ = difference;
  max_index_ = index;
}

template <class T>
void Deviation::add_finite(uint64_t first, std::span<const T> a, std::span<const T> b) {
  const PairSums sums = pair_sums_of(a, b);
  count_ += a.size();
  differing_ += sums.differing;
  sum_.add(sums.absolute);
  square_.add(sums.square);
  product_.add(sums.product);
  square_a_.add(sums.square_a);
  square_b_.add(sums.square_b);
  if (sums.max > max_) {
    for (size_t i = 0; i < a.size(); ++i)
      raise_max(std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])), first + i);
  }
  if (!precision_) return;
  if (sums.differing == 0) {
    for (uint64_t& count : within_) count += a.size();
    return;
  }
  const auto within = count_within_ulps(a, b, *precision_);
  for (size_t i = 0; i < within_.size(); ++i) within_[i] += within[i];
}

void Deviation::add_special(uint64_t index, double a, double b) {
  ++count_;
  if (std::isnan(a) || std::isnan(b)) {
    ++nan_;
    differing_ += std::isnan(a) && std::isnan(b) ? 0U : 1U;
    return;
  }
  const double difference = a == b ? 0 : std::abs(a - b);
  differing_ += a == b ? 0U : 1U;
  sum_.add(difference);
  square_.add(difference * difference);
  // Equal infinities would hide all other differences.
  if (a != b || std::isfinite(a)) {
    product_.add(a * b);
    square_a_.add(a * a);
    square_b_.add(b * b);
  }
  raise_max(difference, index);
  if (!precision_) return;
  if (a == b || !std::isfinite(difference)) {
    for (uint64_t& count : within_) count += a == b ? 1U : 0U;
    return;
  }
  const double ulp = ulp_of(std::max(std::abs(a), std::abs(b)), *precision_);
  for (size_t i = 0; i < within_.size(); ++i) within_[i] += difference <= kUlps[i] * ulp ? 1U : 0U;
}

template <class T>
void Deviation::add_block(uint64_t first, std::span<const T> a, std::span<const T> b) {
  if (a.empty()) return;
  if (count_not_finite(a) + count_not_finite(b) == 0) return add_finite(first, a, b);
  for (size_t i = 0; i < a.size(); ++i) add_special(first + i, static_cast<double>(a[i]), static_cast<double>(b[i]));
}

void Deviation::add(uint64_t first, std::span<const float> a, std::span<const float> b) { add_block(first, a, b); }
void Deviation::add(uint64_t first, std::span<const double> a, std::span<const double> b) { add_block(first, a, b); }

void Deviation::add(const Deviation& other) {
  count_ += other.count_;
  differing_ += other.differing_;
  nan_ += other.nan_;
  raise_max(other.max_, other.max_index_);
  for (size_t i = 0; i < within_.size(); ++i) within_[i] += other.within_[i];
  sum_.add(other.sum_);
  square_.add(other.square_);
  product_.add(other.product_);
  square_a_.add(other.square_a_);
  square_b_.add(other.square_b_);
}

std::optional<double> Deviation::mean() const {
  if (!has_numbers()) return std::nullopt;
  return sum_.value() / static_cast<double>(count_ - nan_);
}

std::optional<double> Deviation::rmse() const {
  if (!has_numbers()) return std::nullopt;
  return std::sqrt(square_.value() / static_cast<double>(count_ - nan_));
}

std::optional<double> Deviation::relative_error() const {
  const double length = std::sqrt(square_a_.value());
  const double ratio = std::sqrt(square_.value()) / length;
  return std::isfinite(length) && std::isfinite(ratio) ? std::optional(ratio) : std::nullopt;
}

std::optional<double> Deviation::snr_db() const {
  const auto error = relative_error();
  return error ? std::optional(-20 * std::log10(*error) + 0.0) : std::nullopt;
}

std::optional<double> Deviation::cosine() const {
  const double length = std::sqrt(square_a_.value()) * std::sqrt(square_b_.value());
  if (length == 0 || !std::isfinite(length)) return std::nullopt;
  return std::clamp(product_.value() / length, -1.0, 1.0);
}

std::optional<double> Deviation::share_within(size_t i) const {
  if (!precision_ || !has_numbers()) return std::nullopt;
  return static_cast<double>(within_[i]) / static_cast<double>(count_ - nan_);
}

tl::expected<PairFigures, SideError> deviation_of(const Elements& a, const Elements& b,
                                                  std::optional<Precision> precision, size_t threads,
                                                  const CountBytes& count_bytes) {
  std::vector<Deviation> parts(a.chunks().size(), Deviation(precision));
  PerThread<Counts> counters([] { return Counts(Form::floats); });
  auto compared = for_each_pair(a, b, threads, count_bytes, [&](size_t chunk, uint64_t first, auto of_a, auto of_b) {
    parts[chunk].add(first, of_a, of_b);
    std::ignore = counters.with([&](Counts& counts) -> Result<void> {
      counts.add(std::span<const float>(absolute_differences(of_a, of_b)));
      return {};
    });
  });
  if (!compared) return tl::unexpected(compared.error());
  PairFigures out{Deviation(precision), counters.total().distribution()};
  for (const Deviation& part : parts) out.deviation.add(part);
  return out;
}

tl::expected<std::vector<double>, SideError> channel_errors_of(const Elements& a, const Elements& b, ShapeView shape,
                                                               size_t axis, size_t threads,
                                                               const CountBytes& count_bytes) {
  if (shape[axis] > kMaxChannels)
    return tl::unexpected(SideError{Side::a,
                                    {Code::unsupported, fmt::format("axis {} has {} channels; at most {} are supported",
                                                                    axis, shape[axis], kMaxChannels)}});
  PerThread<Channels> sums([&] { return Channels(shape, axis); });
  const size_t workers = threads_for_channels(shape[axis], threads);
  auto compared = for_each_pair(a, b, workers, count_bytes, [&](size_t, uint64_t first, auto of_a, auto of_b) {
    std::vector<double> differences(of_a.size());
    for (size_t i = 0; i < differences.size(); ++i)
      differences[i] = static_cast<double>(of_a[i]) - static_cast<double>(of_b[i]);
    std::ignore = sums.with([&](Channels& mine) -> Result<void> {
      mine.add(first, std::span<const double>(differences));
      return {};
    });
  });
  if (!compared) return tl::unexpected(compared.error());
  const Channels total = sums.total();
  std::vector<double> out;
  for (size_t i = 0; i < total.size(); ++i) out.push_back(total.rms(i));
  return out;
}

}  // namespace weightfs::numbers
