#include "formats/summary/tensors/modules.h"

#include <algorithm>
#include <functional>

#include "formats/summary/tensors/tensor_name.h"

namespace weightfs::summary {
namespace {

struct Suffix {
  std::string_view text;
  Piece piece;
};

// The ends of names, without the point in front. Those of two components are found by the last one, which nothing else
// has. Sorted.
constexpr std::array kSuffixes = {
    Suffix{"Qidxs", Piece::codes},
    Suffix{"SCB", Piece::scb},
    Suffix{"W_q", Piece::hqq_weight},
    Suffix{"_data", Piece::flat_weight},
    Suffix{"_qdata", Piece::flat_weight},
    Suffix{"_scale", Piece::scale},
    Suffix{"_zero_point", Piece::zeros},
    Suffix{"absmax", Piece::absmax},
    Suffix{"biases", Piece::biases},
    Suffix{"bitsandbytes__fp4", Piece::quant_state_fp4},
    Suffix{"bitsandbytes__nf4", Piece::quant_state_nf4},
    Suffix{"centroids", Piece::other},
    Suffix{"codebooks", Piece::other},
    Suffix{"codes", Piece::codes},
    Suffix{"g_idx", Piece::group_index},
    Suffix{"indices", Piece::codes},
    Suffix{"input_global_scale", Piece::scale_of_weight},
    Suffix{"input_scale", Piece::scale_of_weight},
    Suffix{"input_scale_ub", Piece::scale_of_weight},
    Suffix{"input_zero_point", Piece::scale_of_weight},
    Suffix{"k_scale", Piece::scale_of_weight},
    Suffix{"mcg", Piece::other},
    Suffix{"meta", Piece::other},
    Suffix{"mul1", Piece::other},
    Suffix{"nested_absmax", Piece::other},
    Suffix{"nested_quant_map", Piece::other},
    Suffix{"output_scale", Piece::scale_of_weight},
    Suffix{"q_groups", Piece::other},
    Suffix{"q_invperm", Piece::inverse_permutation},
    Suffix{"q_perm", Piece::other},
    Suffix{"q_scale", Piece::other},
    Suffix{"q_scale_max", Piece::other},
    Suffix{"q_weight", Piece::exl2_weight},
    Suffix{"qscale_act", Piece::scale_of_weight},
    Suffix{"qscale_weight", Piece::scale_of_weight},
    Suffix{"quant_map", Piece::other},
    Suffix{"qweight", Piece::qweight},
    Suffix{"qzeros", Piece::zeros},
    Suffix{"scale", Piece::scale},
    Suffix{"scales", Piece::scales},
    Suffix{"su", Piece::other},
    Suffix{"suh", Piece::other},
    Suffix{"sv", Piece::other},
    Suffix{"svh", Piece::other},
    Suffix{"trellis", Piece::exl3_weight},
    Suffix{"v_scale", Piece::scale_of_weight},
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
    Suffix{"zero", Piece::zeros},
};
static_assert(std::ranges::is_sorted(kSuffixes, {}, &Suffix::text));

// The ends of the last component.
constexpr std::array kTails = {
    Suffix{"_blocks", Piece::blocks},          Suffix{"_scales", Piece::scales},
    Suffix{"_zero_points", Piece::zeros},      Suffix{"_Q4", Piece::onnx_weight},
    Suffix{"_scale_inv", Piece::weight_scale}, Suffix{"_scale", Piece::weight_scale},
    Suffix{"_input_scale", Piece::other},
};

// Components below `weight` that are of the module.
constexpr std::array<std::string_view, 2> kInner = {"weight", "weight.quant_state"};

struct Found {
  Piece piece;
  std::string_view module;
};

Found piece_of(std::string_view name) {
  const std::string_view last = last_component(name);
  std::string_view module = name.substr(0, name.size() - std::min(name.size(), last.size() + 1));
  const auto suffix = std::ranges::lower_bound(kSuffixes, last, {}, &Suffix::text);
  if (suffix != kSuffixes.end() && suffix->text == last) {
    for (const std::string_view inner : kInner)
      if (suffix->piece != Piece::weight && ends_with_components(module, inner))
        return {suffix->piece, module.substr(0, module.size() - std::min(module.size(), inner.size() + 1))};
    return {suffix->piece, module};
  }
  for (const Suffix& tail : kTails)
    if (last.size() > tail.text.size() && last.ends_with(tail.text))
      return {tail.piece, name.substr(0, name.size() - tail.text.size())};
  return {Piece::unnamed, name};
}

struct Keyed {
  size_t hash;
  size_t tensor;
  Found found;
};

}  // namespace

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
