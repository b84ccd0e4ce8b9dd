#include "formats/summary/tensors/modules.h"

#include <algorithm>
#include <functional>
#include <span>

#include "formats/summary/tensors/tensor_name.h"

namespace weightfs::summary {
namespace {

struct Suffix {
  std::string_view text;
  Piece piece;
};

// The ends of names that have a meaning of their own, without the point in front. Those of two components are found by
// the last one, which nothing else has. Sorted.
constexpr std::array kSuffixes = {
    Suffix{"B", Piece::marlin_weight},
    Suffix{"B_24", Piece::marlin_weight},
    Suffix{"B_meta", Piece::sparse_meta},
    Suffix{"Qidxs", Piece::codes},
    Suffix{"SCB", Piece::scb},
    Suffix{"SU", Piece::input_signs},
    Suffix{"SV", Piece::output_signs},
    Suffix{"W_q", Piece::hqq_weight},
    Suffix{"Wscale", Piece::other},
    Suffix{"_data", Piece::flat_weight},
    Suffix{"_qdata", Piece::flat_weight},
    Suffix{"_scale", Piece::scale},
    Suffix{"_zero_point", Piece::zeros},
    Suffix{"absmax", Piece::absmax},
    Suffix{"act_global_scale", Piece::scale_of_weight},
    Suffix{"backward_hadamard_matrix", Piece::other},
    Suffix{"biases", Piece::biases},
    Suffix{"bitmask", Piece::bitmask},
    Suffix{"bitsandbytes__fp4", Piece::quant_state_fp4},
    Suffix{"bitsandbytes__nf4", Piece::quant_state_nf4},
    Suffix{"blocks", Piece::blocks},
    Suffix{"centroids", Piece::codebooks},
    Suffix{"codebook", Piece::codebooks},
    Suffix{"codebook_id", Piece::other},
    Suffix{"codebooks", Piece::codebooks},
    Suffix{"codes", Piece::codes},
    Suffix{"comfy_quant", Piece::other},
    Suffix{"compressed", Piece::sparse_weight},
    Suffix{"deq_scale", Piece::output_scale},
    Suffix{"dequant_scale", Piece::output_scale},
    Suffix{"forward_hadamard_matrix", Piece::other},
    Suffix{"fuse_scales", Piece::other},
    Suffix{"g_idx", Piece::group_index},
    Suffix{"indices", Piece::codes},
    Suffix{"input_global_scale", Piece::scale_of_weight},
    Suffix{"input_scale", Piece::scale_of_weight},
    Suffix{"input_scale_ub", Piece::scale_of_weight},
    Suffix{"input_zero_point", Piece::scale_of_weight},
    Suffix{"k_scale", Piece::scale_of_weight},
    Suffix{"lookup_table", Piece::codebooks},
    Suffix{"mcg", Piece::other},
    Suffix{"meta", Piece::sparse_meta},
    Suffix{"mul1", Piece::other},
    Suffix{"nested_absmax", Piece::other},
    Suffix{"nested_quant_map", Piece::other},
    Suffix{"output_scale", Piece::scale_of_weight},
    Suffix{"pre_quant_scale", Piece::scale_of_weight},
    Suffix{"q_groups", Piece::other},
    Suffix{"q_invperm", Piece::inverse_permutation},
    Suffix{"q_perm", Piece::other},
    Suffix{"q_scale", Piece::scale},
    Suffix{"q_scale_max", Piece::other},
    Suffix{"q_weight", Piece::exl2_weight},
    Suffix{"qscale_act", Piece::scale_of_weight},
    Suffix{"qscale_weight", Piece::scale_of_weight},
    Suffix{"quant_bias", Piece::other},
    Suffix{"quant_map", Piece::other},
    Suffix{"quant_scale", Piece::other},
    Suffix{"qweight", Piece::qweight},
    Suffix{"qzeros", Piece::zeros},
    Suffix{"row_offsets", Piece::other},
    Suffix{"s", Piece::scales},
    Suffix{"scale", Piece::scale},
    Suffix{"scaleWH", Piece::other},
    Suffix{"scale_bias", Piece::other},
    Suffix{"scale_input", Piece::scale_of_weight},
    Suffix{"scale_weight", Piece::weight_scale},
    Suffix{"scales", Piece::scales},
    Suffix{"shape", Piece::other},
    Suffix{"smooth_factor", Piece::other},
    Suffix{"smooth_factor_orig", Piece::other},
    Suffix{"su", Piece::other},
    Suffix{"suh", Piece::other},
    Suffix{"sv", Piece::other},
    Suffix{"svh", Piece::other},
    Suffix{"tables", Piece::codebooks},
    Suffix{"tables2", Piece::other},
    Suffix{"tlut", Piece::codebooks},
    Suffix{"trellis", Piece::exl3_weight},
    Suffix{"v_scale", Piece::scale_of_weight},
    Suffix{"wcscales", Piece::other},
    Suffix{"weight", Piece::weight},
    Suffix{"weight_format", Piece::other},
    Suffix{"weight_g_idx", Piece::scale_of_weight},
    Suffix{"weight_global_scale", Piece::weight_scale_2},
    Suffix{"weight_packed", Piece::weight_packed},
    Suffix{"weight_scale", Piece::weight_scale},
    Suffix{"weight_scale_2", Piece::weight_scale_2},
    Suffix{"weight_scale_inv", Piece::weight_scale},
    Suffix{"weight_shape", Piece::scale_of_weight},
    Suffix{"weight_zero_point", Piece::scale_of_weight},
    Suffix{"weights_scaling_factor_2", Piece::weight_scale_2},
    Suffix{"workspace", Piece::other},
    Suffix{"wscales", Piece::scales},
    Suffix{"wtscale", Piece::other},
    Suffix{"wzeros", Piece::zeros},
    Suffix{"zero", Piece::zeros},
};
static_assert(std::ranges::is_sorted(kSuffixes, {}, &Suffix::text));

constexpr std::string_view kBlocks = "_blocks";

// Components below `weight` that are of the module.
constexpr std::array<std::string_view, 2> kInner = {"weight", "weight.quant_state"};

struct Found {
  Piece piece;
  std::string_view module;
};

// Words of which the ends of other names are made: `weight_scales`, `_weight_qdata`, `W_quantized`.
constexpr auto kWeightWords = std::to_array<std::string_view>({"weight", "weights"});
constexpr auto kPackedWords =
    std::to_array<std::string_view>({"data", "packed", "qdata", "quantized", "qweight", "qweights"});
constexpr auto kScaleWords = std::to_array<std::string_view>({"absmax", "scale", "scales", "scaling"});
constexpr auto kZeroWords = std::to_array<std::string_view>({"offset", "qzeros", "shift", "zero", "zeros", "zp"});
constexpr auto kActivationWords = std::to_array<std::string_view>(
    {"act", "activation", "bottom", "input", "output", "prequant", "smooth", "smoothing", "top"});
constexpr auto kOtherWords = std::to_array<std::string_view>(
    {"block", "channel", "factor", "global", "int8", "inv", "per", "point", "points", "second"});

// What the words at the end of a name say.
struct Words {
  bool has_scale = false, has_zero = false, has_packed = false, has_weight = false, is_of_activations = false;

  /// Notes a word; whether it is one of those that ends are made of.
  bool add(std::string_view word) {
    const bool is_scale = is_in(word, kScaleWords), is_zero = is_in(word, kZeroWords);
    const bool is_packed = is_in(word, kPackedWords), is_weight = is_in(word, kWeightWords);
    has_scale |= is_scale;
    has_zero |= is_zero;
    has_packed |= is_packed;
    has_weight |= is_weight;
    const bool is_activation = is_in(word, kActivationWords);
    is_of_activations |= is_activation;
    return is_scale || is_zero || is_packed || is_weight || is_activation || is_in(word, kOtherWords) || word.empty();
  }
};

std::string_view without_separators(std::string_view name) {
  while (name.ends_with('.') || name.ends_with('/')) name.remove_suffix(1);
  return name;
}

// The piece by the words at the end of the last component, which begins at `begin`; the module is what is before them.
Found piece_by_words(std::string_view name, size_t begin) {
  Words words;
  size_t end = name.size();
  while (end > begin) {
    const size_t at = name.substr(0, end).find_last_of("_:./");
    const size_t first = at == name.npos || at < begin ? begin : at + 1;
    if (!words.add(name.substr(first, end - first))) break;
    end = first > begin ? first - 1 : begin;
  }
  std::string_view module = without_separators(name.substr(0, end));
  if (!words.has_weight && end == begin && ends_with_components(module, kInner.front()))
    module = without_separators(module.substr(0, module.size() - kInner.front().size()));
  if (words.has_scale) return {words.is_of_activations ? Piece::scale_of_weight : Piece::weight_scale, module};
  if (words.has_zero) return {words.is_of_activations ? Piece::scale_of_weight : Piece::zeros, module};
  if (words.has_packed) return {Piece::flat_weight, module};
  if (words.has_weight) return {Piece::weight, module};
  return {Piece::unnamed, name};
}

Found piece_of(std::string_view name) {
  const std::string_view last = last_component(name);
  const std::string_view module = parent_of(name);
  const auto suffix = std::ranges::lower_bound(kSuffixes, last, {}, &Suffix::text);
  if (suffix != kSuffixes.end() && suffix->text == last) {
    for (const std::string_view inner : kInner)
      if (suffix->piece != Piece::weight && ends_with_components(module, inner))
        return {suffix->piece, module.substr(0, module.size() - std::min(module.size(), inner.size() + 1))};
    return {suffix->piece, module};
  }
  if (last.size() > kBlocks.size() && last.ends_with(kBlocks))
    return {Piece::blocks, name.substr(0, name.size() - kBlocks.size())};
  return piece_by_words(name, name.size() - last.size());
}

struct Keyed {
  size_t hash;
  size_t tensor;
  Found found;
};

}  // namespace

bool is_scale(Piece piece) {
  return piece == Piece::scale || piece == Piece::scales || piece == Piece::weight_scale || piece == Piece::absmax;
}

const Module::Member* Module::find(Piece piece) const {
  const auto member = std::ranges::find(members, piece, &Member::piece);
  return member == members.end() ? nullptr : &*member;
}

std::vector<Module> find_modules(const TensorList& tensors) {
  // Most models have no companions: nothing is sorted for them.
  const auto is_plain = [&](size_t i) {
    const Piece piece = piece_of(tensors.name(i)).piece;
    return piece == Piece::weight || piece == Piece::unnamed;
  };
  size_t plain = 0;
  while (plain < tensors.size() && is_plain(plain)) ++plain;
  if (plain == tensors.size()) return {};
  std::vector<Keyed> all;
  all.reserve(tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    const Found found = piece_of(tensors.name(i));
    all.push_back({std::hash<std::string_view>{}(found.module), i, found});
  }
  const auto key = [](const Keyed& one) { return std::pair(one.hash, one.found.module); };
  std::ranges::stable_sort(all, {}, key);
  std::vector<Module> modules;
  for (auto first = all.begin(); first != all.end();) {
    const auto last = std::find_if(first, all.end(), [&](const Keyed& one) { return key(one) != key(*first); });
    if (last - first > 1) {
      Module& module = modules.emplace_back();
      module.name = first->found.module;
      for (auto at = first; at != last; ++at) module.members.push_back({at->tensor, at->found.piece});
    }
    first = last;
  }
  return modules;
}

}  // namespace weightfs::summary
