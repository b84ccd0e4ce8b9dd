#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/text.h"
#include "formats/float32.h"
#include "formats/mapping/config/rope.h"
#include "formats/mapping/hub/config_fields.h"

namespace weightfs::mapping {
namespace {

constexpr double kUsualTheta = 10'000;

// A key of another name with the same field in rope_scaling.
constexpr auto kYarnFields = std::to_array<std::pair<std::string_view, std::string_view>>({
    {"rope.scaling.yarn_ext_factor", "extrapolation_factor"},
    {"rope.scaling.yarn_attn_factor", "attention_factor"},
    {"rope.scaling.yarn_beta_fast", "beta_fast"},
    {"rope.scaling.yarn_beta_slow", "beta_slow"},
});

double shortest(double number) { return shortest_decimal(static_cast<float>(number)); }

void append_real(Map& out, std::string_view field, std::optional<double> value) {
  if (value) out.append(std::string(field), Value(*value));
}

void append_number(Map& out, std::string_view field, const summary::Number& value) {
  if (value) out.append(std::string(field), Value(*value));
}

// rope_scaling of the types that keys describe; without entries if there is none.
Map stated_scaling(HubConfig& config) {
  const summary::Fields& keys = config.keys();
  const std::string type = keys.text({"rope.scaling.type"});
  Map out;
  if (type != "linear" && type != "yarn") return out;
  out.append("rope_type", type);
  append_real(out, "factor", keys.real({"rope.scaling.factor"}));
  if (type == "linear") return out;
  append_number(out, "original_max_position_embeddings", keys.number({"rope.scaling.original_context_length"}));
  for (const auto& [key, field] : kYarnFields) append_real(out, field, keys.real({key}));
  const auto multiplier = keys.real({"rope.scaling.yarn_log_multiplier"});
  if (config.arch() == Arch::deepseek2 && multiplier) {
    // llama.cpp takes the first for the same as the second.
    append_real(out, "mscale", shortest(10 * *multiplier));
    append_real(out, "mscale_all_dim", shortest(10 * *multiplier));
  }
  if (config.arch() == Arch::mistral3) {
    append_real(out, "mscale_all_dim", multiplier);
    append_real(out, "llama_4_scaling_beta", keys.real({"attention.temperature_scale"}));
  }
  // Its class and its published models have this value.
  if (config.arch() == Arch::gpt_oss) out.append("truncate", false);
  return out;
}

// The classes of transformers 5 have all in one object.
void add_rope_parameters(HubConfig& config, Map scaling) {
  const summary::Fields& keys = config.keys();
  if (scaling.find("rope_type") == nullptr) scaling.append("rope_type", "default");
  append_real(scaling, "rope_theta", keys.real({"rope.freq_base"}));
  if (config.arch() != Arch::mistral3) {
    const auto* const head = config.fields().find_as<uint64_t>("head_dim");
    const summary::Number rotated = config.number("rope.dimension_count");
    if (head != nullptr && *head > 0 && rotated && *rotated <= *head)
      scaling.append("partial_rotary_factor", static_cast<double>(*rotated) / static_cast<double>(*head));
    if (const List* const sections = keys.list("rope.dimension_sections")) {
      List used = *sections;
      while (!used.empty() && summary::number_of(used.back()) == summary::Number(0)) used.pop_back();
      scaling.append("mrope_section", std::move(used));
      scaling.append("mrope_interleaved", true);
    }
  }
  config.set("rope_parameters", Value(std::move(scaling)));
}

// Each kind of attention has an object; the fraction that is rotated is in the tensor rope_freqs.
void add_gemma4_rope(HubConfig& config) {
  Map full, sliding, both;
  full.append("rope_type", "proportional");
  append_real(full, "rope_theta", config.keys().real({"rope.freq_base"}));
  sliding.append("rope_type", "default");
  append_real(sliding, "rope_theta", config.keys().real({"rope.freq_base_swa"}));
  both.append("full_attention", std::move(full));
  both.append("sliding_attention", std::move(sliding));
  config.set("rope_parameters", Value(std::move(both)));
}

// The numbers of a small tensor.
Result<std::vector<float>> numbers_of(const TensorView& tensor) {
  if (tensor.source.refused() || tensor.shape.size() != 1 || tensor.shape[0] > kMaxRopeFactors ||
      !has_float32(*tensor.dtype))
    return failure(Code::unsupported, fmt::format("tensor {} is not a list of factors", quoted(tensor.name)));
  std::vector<float> out(static_cast<size_t>(tensor.shape[0]));
  const SourcePtr values = float32_values(tensor);
  TRY_VOID(read_exact(*values, 0, std::as_writable_bytes(std::span(out))));
  return out;
}

bool is_near(const std::vector<float>& a, const std::vector<float>& b) {
  // torch's last bit depends on its version and the processor.
  constexpr float kTolerance = 1e-6F;
  return std::ranges::equal(a, b, [](float x, float y) { return std::fabs(x - y) <= kTolerance * std::fabs(y); });
}

// The scaling that makes these factors. Only the ratios of its two factors and the length count, so that a few usual
// ones and every power of two are all that models have.
std::optional<Llama3Scaling> llama3_scaling(const std::vector<float>& factors, double theta) {
  constexpr double kMinLength = 16, kMaxLength = 1 << 20;
  constexpr auto kLowHigh = std::to_array<std::pair<double, double>>({{1, 4}, {1, 2}, {1, 8}, {1, 32}});
  if (factors.empty()) return std::nullopt;
  const auto head_dim = static_cast<uint32_t>(2 * factors.size());
  const double factor = shortest_decimal(*std::ranges::max_element(factors));
  if (!(factor > 1)) return std::nullopt;  // without an effect, and for NaN
  for (const auto& [low, high] : kLowHigh)
    for (double original = kMinLength; original <= kMaxLength; original *= 2) {
      const Llama3Scaling scaling = {.factor = factor, .low = low, .high = high, .original = original};
      if (is_near(llama3_factors(scaling, theta, head_dim), factors)) return scaling;
    }
  return std::nullopt;
}

void set_llama3(const std::vector<float>& factors, double theta, Map& config) {
  const auto found = llama3_scaling(factors, theta);
  if (!found) {
    config.set("_rope_scaling_missing", "rope_freqs.weight has factors that no usual scaling of llama3 makes");
    return;
  }
  Map scaling;
  scaling.append("rope_type", "llama3");
  scaling.append("factor", found->factor);
  scaling.append("low_freq_factor", found->low);
  scaling.append("high_freq_factor", found->high);
  scaling.append("original_max_position_embeddings", static_cast<uint64_t>(found->original));
  config.set("rope_scaling", Value(std::move(scaling)));
}

List list_of(const std::vector<float>& numbers) {
  List out;
  for (const float number : numbers) out.emplace_back(shortest_decimal(number));
  return out;
}

Result<void> add_phi3_factors(const TensorView& longer, const TensorView& shorter, Map& config) {
  Map scaling;
  scaling.append("type", "longrope");
  scaling.append("long_factor", list_of(TRY(numbers_of(longer))));
  scaling.append("short_factor", list_of(TRY(numbers_of(shorter))));
  config.set("rope_scaling", Value(std::move(scaling)));
  return {};
}

void set_gemma4_fraction(const std::vector<float>& factors, Map& config) {
  const auto rotated = std::ranges::count(factors, 1.0F);
  const auto* const both = config.find_as<Map>("rope_parameters");
  const Map* const stated = both == nullptr ? nullptr : both->find_as<Map>("full_attention");
  if (stated == nullptr || factors.empty()) return;
  Map full = *stated;
  full.set("partial_rotary_factor", static_cast<double>(rotated) / static_cast<double>(factors.size()));
  Map changed = *both;
  changed.set("full_attention", Value(std::move(full)));
  config.set("rope_parameters", Value(std::move(changed)));
}

}  // namespace

void add_rope_fields(HubConfig& config) {
  if (config.arch() == Arch::bert) return;
  if (config.arch() == Arch::gemma4) return add_gemma4_rope(config);
  Map scaling = stated_scaling(config);
  if (config.arch() == Arch::mistral3 || config.arch() == Arch::qwen35 || config.arch() == Arch::qwen35moe)
    return add_rope_parameters(config, std::move(scaling));
  config.set("rope_theta", config.keys().real({"rope.freq_base"}));
  config.set("rope_local_base_freq", config.keys().real({"rope.freq_base_swa"}));
  if (!scaling.empty()) config.set("rope_scaling", Value(std::move(scaling)));
}

Result<void> add_rope_factors(const HubConfig& config, Map& fields) {
  const auto frequencies = config.tensor("rope_freqs.weight");
  if (config.arch() == Arch::gemma4 && frequencies) set_gemma4_fraction(TRY(numbers_of(*frequencies)), fields);
  const bool is_llama = config.arch() == Arch::llama || config.arch() == Arch::granite ||
                        config.arch() == Arch::smollm3 || config.arch() == Arch::mistral3;
  if (is_llama && frequencies)
    set_llama3(TRY(numbers_of(*frequencies)), config.keys().real({"rope.freq_base"}).value_or(kUsualTheta), fields);
  const auto longer = config.tensor("rope_factors_long.weight");
  const auto shorter = config.tensor("rope_factors_short.weight");
  if (config.arch() == Arch::phi3 && longer && shorter) TRY_VOID(add_phi3_factors(*longer, *shorter, fields));
  return {};
}

}  // namespace weightfs::mapping
