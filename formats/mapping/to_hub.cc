#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>

#include "base/text.h"
#include "formats/mapping/mapping.h"
#include "formats/mapping/operations/joined.h"
#include "formats/names/names.h"
#include "formats/summary/fields.h"

namespace weightfs::mapping {
namespace {

// Tensors that the converter computes from config.json.
constexpr auto kComputed =
    std::to_array<std::string_view>({"rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight"});

Sizes sizes_of(const summary::Fields& keys, Arch arch) {
  const auto number = [&](std::string_view name) { return keys.number({name}).value_or(0); };
  Sizes sizes;
  sizes.heads = number("attention.head_count");
  sizes.key_heads =
      arch == Arch::deepseek2 ? sizes.heads : keys.number({"attention.head_count_kv"}).value_or(sizes.heads);
  sizes.linear_key_heads = number("ssm.group_count");
  sizes.linear_value_heads = number("ssm.time_step_rank");
  sizes.linear_key_size = number("ssm.state_size");
  if (sizes.linear_value_heads > 0) sizes.linear_value_size = number("ssm.inner_size") / sizes.linear_value_heads;
  return sizes;
}

// The type that the numbers of a repository have: that of the first matrix of 16 bits; nothing if there is none.
std::optional<GgufType> type_of_matrices(const Model& model) {
  for (size_t i = 0; i < model.tensors.size(); ++i) {
    if (model.tensors.shape(i).size() < 2) continue;
    if (model.tensors.dtype(i)->name == "bfloat16") return GgufType::bfloat16;
    if (model.tensors.dtype(i)->name == "float16") return GgufType::float16;
  }
  return std::nullopt;
}

// A model that is made of a GGUF; its charges are released with it.
struct MadeOfGguf {
  explicit MadeOfGguf(const ModelPtr& gguf) : from(gguf) {
    model.format = "safetensors";
    model.common = gguf->common;
    model.budget = gguf->budget;
    if (model.budget != nullptr) charges.emplace(*model.budget, Charges::Pass::together);
  }

  Result<void> charge(Cost cost, uint64_t count) { return charges ? charges->charge(cost, count) : Result<void>(); }

  ModelPtr from;  // has texts that tensors refer to
  Model model;
  std::optional<Charges> charges;
};

constexpr uint64_t kSteps = 3;  // the microseconds of finding a name in the table
constexpr uint64_t kNode = 96;  // bytes of a name in a map

class HubMaker {
 public:
  HubMaker(const Model& gguf, const Architecture& architecture, const summary::Fields& keys, MadeOfGguf& out)
      : gguf_(gguf),
        architecture_(architecture),
        sizes_(sizes_of(keys, architecture.id)),
        further_(keys.number({"nextn_predict_layers"}).value_or(0)),
        layers_(keys.number({"block_count"}).value_or(0)),
        type_(type_of_matrices(gguf)),
        out_(out) {}

  Result<void> run() {
    TRY_VOID(out_.charge(Cost::step, gguf_.tensors.size() * kSteps));
    TRY_VOID(out_.charge(Cost::kept, gguf_.tensors.size() * kNode));
    for (size_t i = 0; i < gguf_.tensors.size(); ++i)
      if (!by_name_.emplace(gguf_.tensors.name(i), i).second)
        return failure(Code::unsupported, fmt::format("two tensors are {}", quoted(gguf_.tensors.name(i))));
    for (size_t i = 0; i < gguf_.tensors.size(); ++i) TRY_VOID(add(i));
    return {};
  }

 private:
  Result<void> add(size_t i) {
    const TensorView tensor = gguf_.tensors[i];
    if (std::ranges::find(kComputed, tensor.name) != kComputed.end()) return {};
    const bool is_mxfp4 = tensor.dtype->name == "mxfp4";
    for (const NameRow& row : name_rows()) {
      if ((row.architectures & bit(architecture_.id)) == 0 || row.op == Op::drop) continue;
      const auto numbers = fit(row.gguf, tensor.name);
      if (numbers && is_made_of_mxfp4(row.op) == (is_mxfp4 && architecture_.id == Arch::gpt_oss))
        return add(tensor, row, *numbers);
    }
    return failure(Code::unsupported,
                   fmt::format("tensor {} has no name in a repository of {}", quoted(tensor.name), architecture_.name));
  }

  static bool is_made_of_mxfp4(Op op) { return op == Op::mxfp4 || op == Op::mxfp4_even || op == Op::mxfp4_odd; }

  // The tensor that the GGUF has besides: the values to the keys, or what an expert has besides its gate.
  Result<TensorView> other(const TensorView& tensor, std::string_view from, std::string_view to) const {
    std::string name(tensor.name);
    name.replace(name.find(from), from.size(), to);
    const auto found = by_name_.find(name);
    if (found == by_name_.end()) return failure(Code::unsupported, fmt::format("tensor {} is missing", quoted(name)));
    return gguf_.tensors[found->second];
  }

  Result<void> add(const TensorView& tensor, const NameRow& row, const Numbers& numbers) {
    constexpr std::string_view kGate = "ffn_gate_exps", kUp = "ffn_up_exps";
    const std::string name = hub_name(fill(row.hub, numbers));
    switch (row.op) {
      case Op::expert:
        return add_experts(tensor, row, numbers);
      case Op::mla_keys: {
        const TensorView values = TRY(other(tensor, "attn_k_b", "attn_v_b"));
        return keep(name, TRY(joined_mla(tensor, values)), row.op);
      }
      case Op::even: {
        const TensorView up = TRY(other(tensor, kGate, kUp));
        return keep(name, TRY(alternating(tensor, up)), row.op);
      }
      case Op::transposed_even: {
        const TensorView up = TRY(other(tensor, kGate, kUp));
        return keep(name, TRY(alternating_transposed(tensor, up)), row.op);
      }
      case Op::mxfp4:
        return add_mxfp4(name, {tensor});
      case Op::mxfp4_even: {
        const TensorView up = TRY(other(tensor, kGate, kUp));
        return add_mxfp4(name, {tensor, up});
      }
      case Op::transposed:
        return keep(name, TRY(transposed_again(tensor)), row.op);
      case Op::mla_values:
      case Op::odd:
      case Op::mxfp4_odd:
      case Op::transposed_odd:
        return {};  // with the other one
      default:
        return keep(name, TRY(restored(tensor, row.op, architecture_, sizes_)), row.op);
    }
  }

  Result<void> add_experts(const TensorView& tensor, const NameRow& row, Numbers numbers) {
    if (tensor.shape.size() != 3 || tensor.shape[0] == 0 || tensor.source.refused() ||
        tensor.nbytes() % tensor.shape[0] != 0)
      return failure(Code::unsupported, fmt::format("tensor {} is not [experts, rows, columns]", quoted(tensor.name)));
    const uint64_t bytes = tensor.nbytes() / tensor.shape[0];
    for (numbers.expert = 0; numbers.expert < tensor.shape[0]; ++numbers.expert) {
      Tensor expert;
      expert.dtype = tensor.dtype;
      expert.stored_dtype = tensor.stored_dtype;
      expert.shape = {tensor.shape[1], tensor.shape[2]};
      expert.source = TRY(slice(tensor.source.whole(), tensor.source.offset() + numbers.expert * bytes, bytes));
      TRY_VOID(keep(fill(row.hub, numbers), std::move(expert), row.op));
    }
    return {};
  }

  Result<void> add_mxfp4(const std::string& blocks, const std::vector<TensorView>& tensors) {
    constexpr std::string_view kBlocks = "blocks";
    const std::string scales = blocks.substr(0, blocks.size() - kBlocks.size()) + "scales";
    Tensor halves = TRY(mxfp4_part(tensors, Mxfp4Part::blocks));
    TRY_VOID(keep(blocks, std::move(halves), Op::mxfp4));
    return keep(scales, TRY(mxfp4_part(tensors, Mxfp4Part::scales)), Op::mxfp4);
  }

  // The numbers that a GGUF always has as float32 get the type of the others.
  Result<void> keep(const std::string& name, Tensor tensor, Op op) {
    const bool is_norm = op == Op::norm && architecture_.adds_one_to_norms && name.ends_with(".weight");
    const Arithmetic arithmetic = op == Op::value_decays ? Arithmetic::exponent
                                  : is_norm              ? Arithmetic::minus_one
                                                         : Arithmetic::none;
    const bool stays = op == Op::value_decays || name.ends_with(".e_score_correction_bias");
    if (tensor.dtype->name == "float32" && (arithmetic != Arithmetic::none || (type_ && !stays)))
      tensor = TRY(
          with_numbers(std::move(tensor), arithmetic, stays ? GgufType::float32 : type_.value_or(GgufType::float32)));
    tensor.name = name;
    tensor.stored_dtype = tensor.dtype->name;
    TRY_VOID(out_.charge(Cost::tensor, 1));
    TRY_VOID(out_.charge(Cost::kept, kNode + name.size()));
    if (!made_.insert(name).second) return failure(Code::unsupported, fmt::format("two tensors are {}", quoted(name)));
    out_.model.tensors.push_back(tensor);
    return {};
  }

  // The blocks that predict further tokens have names of their own.
  std::string hub_name(std::string name) const {
    if (further_ == 0 || further_ > layers_) return name;
    constexpr std::string_view kLayers = "model.layers.";
    if (!name.starts_with(kLayers)) return name;
    const std::string_view rest = std::string_view(name).substr(kLayers.size());
    const size_t dot = rest.find('.');
    const auto block = parse_number<uint64_t>(rest.substr(0, dot));
    if (dot == rest.npos || !block || *block < layers_ - further_) return name;
    const std::string_view what = rest.substr(dot + 1);
    static constexpr std::array<std::array<std::string_view, 2>, 4> kNames = {
        {{"eh_proj.weight", "mtp.fc.weight"},
         {"enorm.weight", "mtp.pre_fc_norm_embedding.weight"},
         {"hnorm.weight", "mtp.pre_fc_norm_hidden.weight"},
         {"shared_head.norm.weight", "mtp.norm.weight"}}};
    for (const auto& [from, to] : kNames)
      if (what == from) return std::string(to);
    return fmt::format("mtp.layers.{}.{}", *block - (layers_ - further_), what);
  }

  const Model& gguf_;
  const Architecture& architecture_;
  Sizes sizes_;
  uint64_t further_;  // blocks that predict further tokens
  uint64_t layers_;   // with these
  std::optional<GgufType> type_;
  MadeOfGguf& out_;
  std::map<std::string_view, size_t> by_name_;
  std::set<std::string> made_;  // names in the repository
};

}  // namespace

bool has_hub_names(const Model& model) {
  return model.gguf_keys != nullptr && architecture_named(text_in(model.metadata, "general.architecture")) != nullptr;
}

Result<ModelPtr> as_hub(const ModelPtr& gguf) {
  const std::string_view name = text_in(gguf->metadata, "general.architecture");
  const Architecture* const architecture = architecture_named(name);
  if (architecture == nullptr)
    return failure(Code::unsupported,
                   name.empty() ? "no general.architecture"
                                : fmt::format("the names that transformers has for {} are not known", printable(name)));
  std::vector<std::string> warnings;
  const summary::Fields keys(&gguf->metadata, "the keys", warnings, std::string(name) + ".");
  const auto made = std::make_shared<MadeOfGguf>(gguf);
  TRY_VOID(HubMaker(*gguf, *architecture, keys, *made).run());
  return ModelPtr(made, &made->model);
}

}  // namespace weightfs::mapping
