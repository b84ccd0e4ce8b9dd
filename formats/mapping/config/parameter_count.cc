#include "formats/mapping/parameter_count.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "formats/summary/fields.h"

namespace weightfs::mapping {
namespace {

constexpr uint64_t kMaxParameters = uint64_t{1} << 60;  // sums of a tensor's with those before do not wrap

// Two digits at least: "172K", "1.5B".
std::string rounded(double count) {
  static constexpr std::array<std::pair<double, char>, 3> kUnits = {{{1e12, 'T'}, {1e9, 'B'}, {1e6, 'M'}}};
  double scale = 1e-3;
  char unit = 'K';
  for (const auto& [size, letter] : kUnits) {
    if (count <= size) continue;
    scale = 1 / size;
    unit = letter;
    break;
  }
  const double scaled = count * scale;
  const double whole = std::nearbyint(scaled);
  const int digits = whole >= 10 ? 2 : (whole >= 1 ? 1 : 0);
  return fmt::format("{:.{}f}{}", scaled, 2 - digits, unit);
}

}  // namespace

void ParameterCount::add(std::string_view name, ShapeView shape) {
  summary::Number count = 1;
  for (const uint64_t size : shape) count = summary::product(count, size);
  const uint64_t size = count.value_or(UINT64_MAX);
  if (size > kMaxParameters || total() > kMaxParameters - size) return;
  if (name.find("_exps.") == name.npos || shape.size() < 3) {
    shared_ += size;
    return;
  }
  const bool is_bias = name.find(".bias") != name.npos;
  const uint64_t experts = std::max<uint64_t>(shape[shape.size() - (is_bias ? 2 : 3)], 1);
  in_experts_ += size;
  in_one_expert_ += size / experts;
  experts_ += experts;
  ++tensors_with_experts_;
}

std::string ParameterCount::label() const {
  if (total() == 0) return "";
  const uint64_t experts = tensors_with_experts_ == 0 ? 0 : experts_ / tensors_with_experts_;
  if (experts == 0) return rounded(static_cast<double>(total()));
  return fmt::format("{}x{}", experts, rounded(static_cast<double>(shared_ + in_one_expert_)));
}

}  // namespace weightfs::mapping
