#include "numbers/moments.h"

#include <algorithm>
#include <cmath>

#include "numbers/kernels.h"

namespace weightfs::numbers {

void Moments::join(uint64_t count, double mean, double second, double third, double fourth) {
  if (count_ == 0) {
    second_ = second;
    third_ = third;
    fourth_ = fourth;
    return;
  }
  const auto n_a = static_cast<double>(count_), n_b = static_cast<double>(count);
  const double n = n_a + n_b;
  const double delta = mean - this->mean();
  const double step = delta / n;
  const double product = delta * step * n_a * n_b;  // delta² · n_a · n_b / n
  fourth_ += fourth + product * step * step * (n_a * n_a - n_a * n_b + n_b * n_b) +
             6 * step * step * (n_a * n_a * second + n_b * n_b * second_) + 4 * step * (n_a * third - n_b * third_);
  third_ += third + product * step * (n_a - n_b) + 3 * step * (n_a * second - n_b * second_);
  second_ += second + product;
}

template <class T>
void Moments::add_block(std::span<const T> block) {
  if (block.empty()) return;
  const BlockSums sums = sums_of(block);
  const double mean = sums.sum / static_cast<double>(block.size());
  const BlockPowers powers = powers_of(block, mean);
  join(block.size(), mean, powers.second, powers.third, powers.fourth);
  ExactSum sum, magnitude;
  sum.add(sums.sum);
  magnitude.add(sums.magnitude);
  add_sums(block.size(), sum, magnitude, sums.min, sums.max);
  zeros_ += sums.zeros;
}

void Moments::add(std::span<const float> block) { add_block(block); }
void Moments::add(std::span<const double> block) { add_block(block); }

void Moments::add(std::span<const Counted> numbers) {
  ExactSum sum, magnitude, second, third, fourth;
  uint64_t count = 0;
  double min = min_, max = max_;
  for (const auto& [value, times] : numbers) {
    count += times;
    zeros_ += value == 0 ? times : 0;
    sum.add(value * static_cast<double>(times));
    magnitude.add(std::abs(value) * static_cast<double>(times));
    min = std::min(min, value);
    max = std::max(max, value);
  }
  if (count == 0) return;
  const double mean = sum.value() / static_cast<double>(count);
  for (const auto& [value, times] : numbers) {
    const double distance = value - mean;
    const double square = distance * distance * static_cast<double>(times);
    second.add(square);
    third.add(square * distance);
    fourth.add(square * distance * distance);
  }
  join(count, mean, second.value(), third.value(), fourth.value());
  add_sums(count, sum, magnitude, min, max);
}

void Moments::add(const Moments& other) {
  if (other.count_ == 0) return;
  join(other.count_, other.mean(), other.second_, other.third_, other.fourth_);
  add_sums(other.count_, other.sum_, other.magnitude_, other.min_, other.max_);
  zeros_ += other.zeros_;
}

void Moments::add_sums(uint64_t count, const ExactSum& sum, const ExactSum& magnitude, double min, double max) {
  count_ += count;
  sum_.add(sum);
  magnitude_.add(magnitude);
  min_ = std::min(min_, min);
  max_ = std::max(max_, max);
}

double Moments::std() const { return std::sqrt(second_ / static_cast<double>(count_)); }

std::optional<double> Moments::skewness() const {
  const double skewness = std::sqrt(static_cast<double>(count_)) * third_ / std::pow(second_, 1.5);
  return second_ > 0 && std::isfinite(skewness) ? std::optional(skewness) : std::nullopt;
}

std::optional<double> Moments::kurtosis() const {
  const double kurtosis = static_cast<double>(count_) * fourth_ / (second_ * second_) - 3;
  return second_ > 0 && std::isfinite(kurtosis) ? std::optional(kurtosis) : std::nullopt;
}

double Moments::l2() const { return std::sqrt(second_ + mean() * mean() * static_cast<double>(count_)); }

double Moments::rms() const { return l2() / std::sqrt(static_cast<double>(count_)); }

}  // namespace weightfs::numbers
