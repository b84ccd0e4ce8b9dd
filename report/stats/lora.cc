#include "report/stats/lora.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <unordered_map>

#include "numbers/factors.h"

namespace weightfs::stats {
namespace {

struct Names {
  std::string_view a;
  std::string_view b;
};

constexpr std::array kNames = {Names{"lora_A", "lora_B"}, Names{"lora_a", "lora_b"}, Names{"lora_down", "lora_up"}};

// "layer.lora_A.weight": "layer.weight".
std::string without(const std::string& name, size_t at, size_t size) {
  std::string out = name;
  out.erase(at, size);
  if (at > 0 && at < out.size() && out[at] == '.') out.erase(at, 1);
  return out;
}

}  // namespace

double LoraFigures::norm() const {
  double square = 0;
  for (const double value : *singular_values) square += value * value;
  return std::sqrt(square);
}

bool is_lora_factor(const std::string& name) {
  return std::ranges::any_of(
      kNames, [&](const Names& each) { return name.find(each.a) != name.npos || name.find(each.b) != name.npos; });
}

std::vector<LoraFigures> lora_figures(const std::vector<LoraFactor>& factors) {
  std::unordered_map<std::string_view, const LoraFactor*> by_name;
  for (const LoraFactor& one : factors) by_name.try_emplace(one.name, &one);
  std::vector<LoraFigures> out;
  for (const LoraFactor& one : factors) {
    for (const auto& [a, b] : kNames) {
      const size_t at = one.name.find(a);
      if (at == std::string::npos) continue;
      std::string other = one.name;
      other.replace(at, a.size(), b);
      const auto found = by_name.find(other);
      if (found == by_name.end()) continue;
      const uint64_t rank = one.tensor.shape.empty() ? 0 : one.tensor.shape.front();
      out.push_back(
          {without(one.name, at, a.size()), rank, numbers::product_singular_values(one.tensor, found->second->tensor)});
      break;
    }
  }
  return out;
}

}  // namespace weightfs::stats
