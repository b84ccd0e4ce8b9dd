#include "formats/mapping/config/rope.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/text.h"
#include "formats/mapping/config/model_settings.h"

namespace weightfs::mapping {
namespace {

constexpr double kDefaultTheta = 10'000;
constexpr double kDefaultFactor = 8;
constexpr double kDefaultLow = 1;
constexpr double kDefaultHigh = 4;
constexpr double kDefaultOriginal = 8192;
constexpr float kNeverRotated = 1e30F;

struct Llama3 {
  float factor;
  float low;
  float high_minus_low;
  float original;
  float longest;   // wavelengths beyond it are slowed by the whole factor
  float shortest;  // those below it are not
};

// torch divides a number by a tensor by multiplying with its reciprocal.
float quotient(float number, float by) { return (1.0F / by) * number; }

float slowing(const Llama3& rope, float frequency) {
  const float wavelength = quotient(static_cast<float>(2 * std::numbers::pi), frequency);
  if (wavelength < rope.shortest) return 1;
  if (wavelength > rope.longest) return rope.factor;
  const float smooth = (quotient(rope.original, wavelength) - rope.low) / rope.high_minus_low;
  return 1.0F / ((1.0F - smooth) / rope.factor + smooth);
}

std::vector<NamedFloats> of_llama3(Settings& settings, const RopeSettings& rope) {
  const Llama3Scaling scaling = {
      .factor = settings.real_in(rope.full, {"factor"}).value_or(kDefaultFactor),
      .low = settings.real_in(rope.full, {"low_freq_factor"}).value_or(kDefaultLow),
      .high = settings.real_in(rope.full, {"high_freq_factor"}).value_or(kDefaultHigh),
      .original = settings.real_in(rope.full, {"original_max_position_embeddings"})
                      .value_or(rope.original ? static_cast<double>(*rope.original) : kDefaultOriginal)};
  if (scaling.factor < 1 || scaling.low <= 0 || scaling.high <= scaling.low || scaling.original < 1) {
    settings.refuse("config.json: the factors of llama3 scaling are impossible");
    return {};
  }
  return {{"rope_freqs.weight", llama3_factors(scaling, rope.theta.value_or(kDefaultTheta), settings.head_dim())}};
}

// Layers with full attention rotate the first part of a head only, in the order of whole heads.
std::vector<NamedFloats> of_gemma4(Settings& settings, const RopeSettings& rope) {
  const std::string type = rope.by_attention ? rope.type : "";
  const Real partial = settings.real_in(rope.full, {"partial_rotary_factor"});
  if (type != "proportional" || !partial || *partial > 1) {
    settings.refuse("config.json: gemma4 needs rope_parameters.full_attention of rope_type proportional");
    return {};
  }
  const uint32_t size = head_dim_of_full_layers(settings);
  const auto rotated = static_cast<size_t>(size * *partial / 2);
  NamedFloats out = {.name = "rope_freqs.weight", .values = std::vector<float>(size / 2, kNeverRotated)};
  std::fill_n(out.values.begin(), rotated, 1.0F);
  return {std::move(out)};
}

std::vector<float> factors(Settings& settings, const RopeSettings& rope, std::string_view name, size_t count) {
  std::vector<std::string> warnings;
  const List* const list = rope.own.list(name);
  std::vector<float> out;
  if (list == nullptr || list->size() != count) {
    settings.refuse(
        fmt::format("config.json: {} has {} numbers, {} needed", name, list == nullptr ? 0 : list->size(), count));
    return out;
  }
  Map one;
  const summary::Fields field(&one, "config.json", warnings);
  for (const Value& value : *list) {
    one.set(std::string(name), value);
    out.push_back(static_cast<float>(settings.real_in(field, {name}).value_or(1)));
  }
  return out;
}

bool has_long_factors(const RopeSettings& rope) {
  const List* const list = rope.own.list("long_factor");
  return list != nullptr && !list->empty();
}

double ratio_of_contexts(Settings& settings, const RopeSettings& rope) {
  const Integer context = settings.integer({"n_positions", "max_position_embeddings"}, 1);
  if (!context) settings.lacks("max_position_embeddings");
  if (!rope.original) settings.lacks("original_max_position_embeddings");
  if (rope.original == 1U) settings.refuse("config.json: original_max_position_embeddings is 1");
  return static_cast<double>(context.value_or(1)) / rope.original.value_or(1);
}

Real factor_of_phi3(Settings& settings, const RopeSettings& rope) {
  const double ratio = ratio_of_contexts(settings, rope);
  if (rope.type != "su" && rope.type != "longrope" && rope.type != "yarn") {
    settings.refuse(fmt::format("config.json: phi3 has no rope_type {} with long factors", printable(rope.type)));
    return std::nullopt;
  }
  const double original = std::max(2U, rope.original.value_or(2));
  if (ratio <= 1) return 1.0;
  if (rope.type == "yarn") return 0.1 * std::log(ratio) + 1;
  return std::sqrt(1 + std::log(ratio) / std::log(original));
}

std::vector<NamedFloats> of_phi3(Settings& settings, const RopeSettings& rope) {
  factor_of_phi3(settings, rope);
  const uint32_t hidden = settings.required({"hidden_size", "n_embd"});
  const double rotated = std::min(rope.partial.value_or(1.0), 1.0) * hidden;
  const uint32_t size = static_cast<uint32_t>(rotated) / settings.heads();
  if (size % 2 != 0 || size > kMaxHeadDim) {
    settings.refuse(fmt::format("config.json: a head has {} rotated elements", size));
    return {};
  }
  std::vector<NamedFloats> out;
  out.push_back({"rope_factors_long.weight", factors(settings, rope, "long_factor", size / 2)});
  out.push_back({"rope_factors_short.weight", factors(settings, rope, "short_factor", size / 2)});
  return out;
}

}  // namespace

std::vector<float> llama3_factors(const Llama3Scaling& scaling, double theta, uint32_t head_dim) {
  const Llama3 numbers = {.factor = static_cast<float>(scaling.factor),
                          .low = static_cast<float>(scaling.low),
                          .high_minus_low = static_cast<float>(scaling.high - scaling.low),
                          .original = static_cast<float>(scaling.original),
                          .longest = static_cast<float>(scaling.original / scaling.low),
                          .shortest = static_cast<float>(scaling.original / scaling.high)};
  std::vector<float> out;
  for (uint32_t i = 0; i < head_dim; i += 2) {
    const float exponent = static_cast<float>(i) / static_cast<float>(head_dim);
    const auto power = static_cast<float>(std::pow(static_cast<double>(static_cast<float>(theta)), exponent));
    out.push_back(slowing(numbers, 1.0F / power));
  }
  return out;
}

Result<std::vector<NamedFloats>> generated_tensors(Repository& repository) {
  Settings settings(repository);
  const RopeSettings rope = rope_settings(repository, settings);
  const Architecture& architecture = repository.architecture();
  std::vector<NamedFloats> out;
  if (architecture.permutes_heads && rope.type == "llama3")
    out = of_llama3(settings, rope);
  else if (architecture.id == Arch::gemma4)
    out = of_gemma4(settings, rope);
  else if (architecture.id == Arch::phi3 && has_long_factors(rope))
    out = of_phi3(settings, rope);
  TRY_VOID(settings.outcome());
  return out;
}

std::optional<double> attention_factor(Repository& repository) {
  Settings settings(repository);
  const RopeSettings rope = rope_settings(repository, settings);
  if (repository.architecture().id != Arch::phi3 || !has_long_factors(rope)) return std::nullopt;
  const Real factor = factor_of_phi3(settings, rope);
  return settings.outcome() ? factor : std::nullopt;
}

}  // namespace weightfs::mapping
