#include "formats/summary/facts/unknown_attention.h"

#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include "base/text.h"

namespace weightfs::summary {
namespace {

using Texts = std::span<const std::string_view>;

// Fields whose meaning is known. Sorted.
constexpr auto kKnown = std::to_array<std::string_view>({"_block_types",
                                                         "_sliding_window_pattern",
                                                         "activation_sparsity_pattern",
                                                         "add_swa_attention_sink_bias",
                                                         "attn_type_list",
                                                         "block_types",
                                                         "cla_share_factor",
                                                         "d_kv",
                                                         "hybrid_layer_pattern",
                                                         "hybrid_override_pattern",
                                                         "kv_channels",
                                                         "kv_lora_rank",
                                                         "layer_types",
                                                         "layers_block_type",
                                                         "linear_attn_config",
                                                         "local_window_size",
                                                         "mtp_hybrid_override_pattern",
                                                         "n_head_kv",
                                                         "n_kv_heads",
                                                         "num_kv_heads",
                                                         "num_kv_shared_layers",
                                                         "sliding_window_pattern",
                                                         "swa_head_dim",
                                                         "swa_num_attention_heads",
                                                         "swa_num_key_value_heads",
                                                         "swa_rope_theta",
                                                         "swa_v_head_dim",
                                                         "use_cla"});
// Fields of families whose cache is not known, by their whole name.
constexpr auto kUnknown =
    std::to_array<std::string_view>({"attention_class", "block_configs", "expand_k", "expand_v", "feature_map",
                                     "layer_group_size", "sparse_config", "total_ut_steps", "use_short_conv"});

// Words of fields about attention of other kinds.
constexpr auto kWords =
    std::to_array<std::string_view>({"cla", "compress", "compressed", "compression", "delta", "gla", "kda", "latent",
                                     "lightning", "nsa", "retention", "rwkv", "swa", "wkv"});
constexpr auto kStateWords = std::to_array<std::string_view>({"linear", "mamba", "ssm"});
constexpr auto kPlaces = std::to_array<std::string_view>({"global", "local", "sparse"});
constexpr auto kOfAttention =
    std::to_array<std::string_view>({"attention", "attn", "dim", "head", "heads", "key", "window"});
// Words of fields that do not change the size of the cache.
constexpr auto kHarmlessOfKeys =
    std::to_array<std::string_view>({"bias", "cache", "clip", "dropout", "dtype", "norm", "proj", "quant", "scale"});
constexpr auto kOfOtherParts =
    std::to_array<std::string_view>({"expert", "experts", "ffn", "mlp", "moe", "nope", "norm", "rope", "vision"});
constexpr auto kTypeLists =
    std::to_array<std::string_view>({"attention_type", "attn_type", "block_type", "layer_type", "layers_type"});

// Lists and numbers that place attention in layers, whose meaning is known. Sorted.
constexpr auto kKnownPlaces = std::to_array<std::string_view>(
    {"attention_layers", "attn_layer_indices", "attn_layer_offset", "attn_layer_period", "cross_attention_layers",
     "full_attention_interval", "full_attn_idxs", "max_window_layers", "sliding_window_pattern"});
constexpr auto kOfPlacedAttention =
    std::to_array<std::string_view>({"attention", "attentions", "attn", "hyena", "sliding", "swa", "window"});
constexpr auto kPlacing =
    std::to_array<std::string_view>({"every", "freq", "frequency", "idx", "idxs", "index", "indexes", "indices",
                                     "interval", "layer", "layers", "offset", "pattern", "period"});

bool is_in(std::string_view text, Texts texts) { return std::ranges::find(texts, text) != texts.end(); }

std::vector<std::string_view> words_of(std::string_view name) {
  std::vector<std::string_view> out;
  for (size_t begin = 0; begin <= name.size();) {
    const size_t end = std::min(name.find('_', begin), name.size());
    out.push_back(name.substr(begin, end - begin));
    begin = end + 1;
  }
  return out;
}

// Null, false, 0, and empty: the variant is not used.
bool is_off(const Value& value) {
  if (std::holds_alternative<std::nullptr_t>(value)) return true;
  if (const auto* const flag = std::get_if<bool>(&value)) return !*flag;
  if (const auto* const list = std::get_if<List>(&value)) return list->empty();
  if (const auto* const map = std::get_if<Map>(&value)) return map->empty();
  return number_of(value) == Number(0);
}

bool is_unknown(std::string_view name, bool has_states) {
  if (std::ranges::binary_search(kKnown, name)) return false;
  if (is_in(name, kUnknown)) return true;
  const auto words = words_of(name);
  const auto has_any = [&](Texts of) { return std::ranges::any_of(words, [&](auto word) { return is_in(word, of); }); };
  const auto has = [&](std::string_view word) { return is_in(word, words); };
  if (has_any(kWords)) return true;
  if (has("kv")) return !has_any(kHarmlessOfKeys);
  if (has("pattern")) return !has_any(kOfOtherParts);
  if (has_any(kPlaces) && has_any(kOfAttention)) return true;
  const auto names = [&](std::string_view type) { return name.find(type) != name.npos; };
  if (std::ranges::any_of(kTypeLists, names)) return !has_any(kOfOtherParts);
  return !has_states && has_any(kStateWords) && (has_any(kOfAttention) || !has("linear"));
}

// Whether a list or a number says in an unknown way which layers have which attention.
bool places_attention(std::string_view name, const Value& value) {
  const auto* const list = std::get_if<List>(&value);
  if (list == nullptr ? number_of(value).value_or(0) == 0 : list->empty()) return false;
  if (std::ranges::binary_search(kKnownPlaces, name) || std::ranges::binary_search(kKnown, name)) return false;
  const auto words = words_of(name);
  const auto has_any = [&](Texts of) { return std::ranges::any_of(words, [&](auto word) { return is_in(word, of); }); };
  return has_any(kOfPlacedAttention) && has_any(kPlacing) && !has_any(kOfOtherParts);
}

}  // namespace

bool states_unknown_attention(const Fields& text, bool has_states) {
  if (text.map() == nullptr) return false;
  const bool has_layers = text.list("attention_layers") != nullptr;  // GPT-Neo states its types twice
  return std::ranges::any_of(*text.map(), [&](const auto& field) {
    const auto& [name, value] = field;
    return !is_off(value) && !(has_layers && name == "attention_types") &&
           (is_unknown(name, has_states) || places_attention(name, value));
  });
}

}  // namespace weightfs::summary
