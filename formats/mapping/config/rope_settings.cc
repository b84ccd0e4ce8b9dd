#include "formats/mapping/config/rope_settings.h"

#include <fmt/core.h>

#include "base/text.h"

namespace weightfs::mapping {
namespace {

using summary::Fields;

constexpr double kLeastTheta = 1;

Map map_of(std::initializer_list<Map::Entry> entries) {
  Map out;
  for (const Map::Entry& entry : entries) out.append(entry.first, entry.second);
  return out;
}

// The scaling of classes that have it by default; null for others.
const Map* default_rope(std::string_view family) {
  static const Map kGptOss = map_of({{"rope_type", "yarn"},
                                     {"factor", 32.0},
                                     {"beta_fast", 32.0},
                                     {"beta_slow", 1.0},
                                     {"original_max_position_embeddings", 4096}});
  static const Map kMinistral3 = map_of({{"rope_type", "yarn"},
                                         {"rope_theta", 1e6},
                                         {"factor", 16.0},
                                         {"original_max_position_embeddings", 16'384},
                                         {"beta_fast", 32.0},
                                         {"beta_slow", 1.0},
                                         {"mscale_all_dim", 1.0},
                                         {"llama_4_scaling_beta", 0.1}});
  static const Map kGemma4 =
      map_of({{"sliding_attention", map_of({{"rope_type", "default"}, {"rope_theta", 10'000.0}})},
              {"full_attention",
               map_of({{"rope_type", "proportional"}, {"partial_rotary_factor", 0.25}, {"rope_theta", 1e6}})}});
  if (family == "GptOss") return &kGptOss;
  if (family == "Ministral3") return &kMinistral3;
  return family == "Gemma4" ? &kGemma4 : nullptr;
}

// null in config.json stands for no scaling, where an absent field stands for the default.
Fields own_object(Repository& repository, Settings& settings) {
  const Fields& fields = settings.fields();
  bool is_named = false;
  for (const std::string_view name : {"rope_parameters", "rope_scaling"}) {
    is_named |= fields.map()->find(name) != nullptr;
    if (!fields.has(name)) continue;
    const Fields object = fields.object({name});
    if (!object) settings.refuse(fmt::format("config.json: {} is not an object", name));
    return object;
  }
  return is_named ? Fields() : Fields(default_rope(settings.family()), "config.json", repository.files().warnings());
}

}  // namespace

RopeSettings rope_settings(Repository& repository, Settings& settings) {
  RopeSettings out;
  out.own = own_object(repository, settings);
  const Fields full = out.own.object({"full_attention"});
  const Fields sliding = out.own.object({"sliding_attention"});
  out.by_attention = full || sliding;
  out.full = full ? full : out.own;
  out.type = lower_case(out.full.text({"rope_type"}));
  out.theta = settings.real_in(out.full, {"rope_theta"}, kLeastTheta);
  out.partial = settings.real_in(out.own, {"partial_rotary_factor"});
  out.original = settings.integer_in(out.own, {"original_max_position_embeddings"}, 1);
  if (out.by_attention) {
    out.theta_swa = settings.real_in(sliding, {"rope_theta"}, kLeastTheta);
    return out;
  }
  if (out.type.empty()) out.type = lower_case(out.own.text({"type"}));
  if (!out.theta)
    out.theta = settings.real(
        {"global_rope_theta", "rope_global_theta", "rope_theta_global", "rope_theta", "rotary_emb_base"}, kLeastTheta);
  out.theta_swa = settings.real(
      {"local_rope_theta", "rope_local_theta", "rope_theta_local", "swa_rope_theta", "rope_local_base_freq"},
      kLeastTheta);
  if (!out.partial) out.partial = settings.real({"partial_rotary_factor", "rope_pct", "rope_percent"});
  if (!out.original) out.original = settings.integer({"original_max_position_embeddings"}, 1);
  return out;
}

}  // namespace weightfs::mapping
