#include "formats/onnx/packed.h"

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <utility>

namespace weightfs::onnx {
namespace {

constexpr size_t kNone = SIZE_MAX;
constexpr uint64_t kMaxBits = 8;
constexpr uint64_t kDefaultBits = 4;  // of all operators with bits

// How many elements a weight has.
enum class Elements : uint8_t {
  stored,           // those of its shape
  rows_by_columns,  // K × N
  by_bits,          // bytes hold elements of so many bits
  unknown
};

// An input with weights, and those with their scales and zero points.
struct Operand {
  size_t weights = kNone;
  std::array<size_t, 3> companions = {kNone, kNone, kNone};
};

struct Operator {
  std::string_view name;
  Elements elements;
  std::array<Operand, 3> operands;
};

// ONNX's Operators.md; docs/ContribOperators.md of ONNX Runtime. Sorted.
constexpr std::array kOperators = {
    Operator{"ConvInteger", Elements::stored, {Operand{1, {3, kNone, kNone}}}},
    Operator{"DequantizeLinear", Elements::stored, {Operand{0, {1, 2, kNone}}}},
    Operator{"DynamicQuantizeLSTM", Elements::stored, {Operand{1, {8, 9, kNone}}, Operand{2, {10, 11, kNone}}}},
    Operator{"DynamicQuantizeMatMul", Elements::stored, {Operand{1, {2, 3, kNone}}}},
    Operator{"GatherBlockQuantized", Elements::by_bits, {Operand{0, {2, 3, kNone}}}},
    Operator{"MatMulBnb4", Elements::rows_by_columns, {Operand{1, {2, kNone, kNone}}}},
    Operator{"MatMulFpQ4", Elements::unknown, {Operand{1, {kNone, kNone, kNone}}}},
    Operator{"MatMulInteger", Elements::stored, {Operand{1, {3, kNone, kNone}}}},
    Operator{"MatMulIntegerToFloat", Elements::stored, {Operand{1, {3, 5, kNone}}}},
    Operator{"MatMulNBits", Elements::rows_by_columns, {Operand{1, {2, 3, 4}}}},
    Operator{"QAttention", Elements::stored, {Operand{1, {4, 7, kNone}}}},
    Operator{"QGemm", Elements::stored, {Operand{3, {4, 5, kNone}}, Operand{6, {kNone, kNone, kNone}}}},
    Operator{"QLinearConv", Elements::stored, {Operand{3, {4, 5, kNone}}, Operand{8, {kNone, kNone, kNone}}}},
    Operator{"QLinearMatMul", Elements::stored, {Operand{3, {4, 5, kNone}}}},
    Operator{"QMoE",
             Elements::by_bits,
             {Operand{2, {3, 11, kNone}}, Operand{5, {6, 12, kNone}}, Operand{8, {9, 13, kNone}}}},
};
static_assert(std::ranges::is_sorted(kOperators, {}, &Operator::name));

size_t row_of(std::string_view op_type) {
  const auto row = std::ranges::lower_bound(kOperators, op_type, {}, &Operator::name);
  return row == kOperators.end() || row->name != op_type ? kNone : static_cast<size_t>(row - kOperators.begin());
}

// The tensors of a model by scope and name.
class Names {
 public:
  explicit Names(const TensorList& tensors) : tensors_(tensors) {
    for (size_t i = 0; i < tensors.size(); ++i) sorted_.push_back(i);
    std::ranges::stable_sort(sorted_, {}, [&](size_t i) { return key(i); });
  }

  /// A tensor of a graph, or of the main graph, whose tensors are visible in all others.
  std::optional<size_t> find(std::string_view scope, std::string_view name) const {
    for (const std::string_view where : {scope, std::string_view()}) {
      const auto wanted = std::pair(where, name);
      const auto at = std::ranges::lower_bound(sorted_, wanted, {}, [&](size_t i) { return key(i); });
      if (at != sorted_.end() && key(*at) == wanted) return *at;
    }
    return std::nullopt;
  }

 private:
  std::pair<std::string_view, std::string_view> key(size_t i) const { return {tensors_.scope(i), tensors_.name(i)}; }

  const TensorList& tensors_;
  std::vector<size_t> sorted_;
};

// What a node states of a tensor of weights.
PackedWeight weight_of(const Operator& row, const PackingAttributes& stated, const TensorView& tensor) {
  PackedWeight out;
  const auto stored = elements_of(tensor.shape);
  const bool has_bytes = tensor.dtype->packed_bits == 0 && tensor.dtype->block == 1 && tensor.dtype->block_bytes > 0;
  const uint64_t bits = stated.bits.value_or(kDefaultBits);
  out.elements = stored;
  if (row.elements == Elements::stored || (row.elements == Elements::by_bits && !has_bytes)) return out;
  out.method = row.name;
  out.elements = std::nullopt;
  if (row.elements == Elements::unknown || bits == 0 || bits > kMaxBits) return out;
  out.bits = static_cast<uint32_t>(bits);
  out.group_size = static_cast<uint32_t>(std::min<uint64_t>(stated.block_size.value_or(0), UINT32_MAX));
  const auto stored_bits =
      elements_of(tensor.shape, has_bytes ? 8 * tensor.dtype->block_bytes : tensor.dtype->packed_bits);
  if (!stored_bits) return out;
  // Rows are padded to whole blocks, so that more may be stored than is stated, but not less.
  const uint64_t room = *stored_bits / bits;
  if (row.elements == Elements::by_bits)
    out.elements = room;
  else if (stated.rows && stated.columns)
    out.elements = elements_of(Shape{*stated.rows, *stated.columns});
  if (out.elements > room) out.elements = std::nullopt;
  return out;
}

}  // namespace

bool has_packed_weights(std::string_view op_type) { return row_of(op_type) != kNone; }

void set_attribute(std::string_view name, uint64_t value, PackingAttributes& out) {
  if (name == "K") out.rows = value;
  if (name == "N") out.columns = value;
  if (name == "bits" || name == "expert_weight_bits") out.bits = value;
  if (name == "block_size") out.block_size = value;
}

Result<void> PackedWeights::add(std::string_view op_type, std::vector<std::string> inputs, std::string scope,
                                PackingAttributes attributes, Budget& budget) {
  uint64_t size = scope.size();
  for (const std::string& input : inputs) size += input.size();
  TRY_VOID(budget.charge(Cost::value, 2 + inputs.size()));
  TRY_VOID(budget.charge(Cost::kept, size));
  uses_.push_back({row_of(op_type), std::move(inputs), std::move(scope), attributes});
  return {};
}

void PackedWeights::finish(Model& out) {
  if (uses_.empty()) return;
  const Names names(out.tensors);
  auto& packed = out.packed_weights.edit();
  for (const Use& use : uses_) {
    const Operator& row = kOperators[use.row];
    const auto tensor_of = [&](size_t input) -> std::optional<size_t> {
      if (input >= use.inputs.size() || use.inputs[input].empty()) return std::nullopt;
      return names.find(use.scope, use.inputs[input]);
    };
    for (const Operand& operand : row.operands) {
      const auto weights = tensor_of(operand.weights);
      if (!weights) continue;
      packed.insert_or_assign(*weights, weight_of(row, use.attributes, out.tensors[*weights]));
      for (const size_t input : operand.companions)
        if (const auto companion = tensor_of(input); companion && companion != weights)
          packed.emplace(*companion, PackedWeight{.is_companion = true, .elements = {}, .method = {}});
    }
  }
  uses_.clear();
}

}  // namespace weightfs::onnx
