#include "formats/onnx/packed.h"

#include <algorithm>
#include <array>
#include <optional>
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

// An input with weights or activations, and those with their scales and zero points.
struct Operand {
  size_t data = kNone;
  std::array<size_t, 3> companions = {kNone, kNone, kNone};
};

struct Operator {
  std::string_view name;
  Elements elements;
  std::array<Operand, 5> operands;
};

constexpr Operand operand(size_t data, size_t scale = kNone, size_t zero_point = kNone, size_t order = kNone) {
  return {data, {scale, zero_point, order}};
}

// The scales and zero points of operators with one input and one output.
constexpr std::array<Operand, 5> kUnary = {operand(0, 1, 2), operand(kNone, 3, 4)};

// ONNX's Operators.md; docs/ContribOperators.md of ONNX Runtime. Sorted.
constexpr std::array kOperators = {
    Operator{"ConvInteger", Elements::stored, {operand(0, 2), operand(1, 3)}},
    Operator{"DequantizeLinear", Elements::stored, {operand(0, 1, 2)}},
    Operator{"DynamicQuantizeLSTM", Elements::stored, {operand(1, 8, 9), operand(2, 10, 11)}},
    Operator{"DynamicQuantizeMatMul", Elements::stored, {operand(1, 2, 3)}},
    Operator{"GatherBlockQuantized", Elements::by_bits, {operand(0, 2, 3)}},
    Operator{"MatMulBnb4", Elements::rows_by_columns, {operand(1, 2)}},
    Operator{"MatMulFpQ4", Elements::unknown, {operand(1)}},
    Operator{"MatMulInteger", Elements::stored, {operand(0, 2), operand(1, 3)}},
    Operator{"MatMulIntegerToFloat", Elements::stored, {operand(0, 2, 4), operand(1, 3, 5)}},
    Operator{"MatMulNBits", Elements::rows_by_columns, {operand(1, 2, 3, 4)}},
    Operator{"QAttention", Elements::stored, {operand(0, 3, 6), operand(1, 4, 7)}},
    Operator{"QEmbedLayerNormalization",
             Elements::stored,
             {operand(2, 8, 13), operand(3, 9, 14), operand(4, 10, 15), operand(5, 11, 16), operand(6, 12, 17)}},
    Operator{"QGemm", Elements::stored, {operand(0, 1, 2), operand(3, 4, 5), operand(6), operand(kNone, 7, 8)}},
    Operator{"QLinearAdd", Elements::stored, {operand(0, 1, 2), operand(3, 4, 5), operand(kNone, 6, 7)}},
    Operator{"QLinearAveragePool", Elements::stored, kUnary},
    Operator{"QLinearConv", Elements::stored, {operand(0, 1, 2), operand(3, 4, 5), operand(8), operand(kNone, 6, 7)}},
    Operator{"QLinearGlobalAveragePool", Elements::stored, kUnary},
    Operator{"QLinearLeakyRelu", Elements::stored, kUnary},
    Operator{"QLinearMatMul", Elements::stored, {operand(0, 1, 2), operand(3, 4, 5), operand(kNone, 6, 7)}},
    Operator{"QLinearMul", Elements::stored, {operand(0, 1, 2), operand(3, 4, 5), operand(kNone, 6, 7)}},
    Operator{"QLinearSigmoid", Elements::stored, kUnary},
    Operator{"QLinearSoftmax", Elements::stored, kUnary},
    Operator{"QMoE", Elements::by_bits, {operand(2, 3, 11), operand(5, 6, 12), operand(8, 9, 13)}},
    Operator{"QuantizeLinear", Elements::stored, {operand(kNone, 1, 2)}},
};
static_assert(std::ranges::is_sorted(kOperators, {}, &Operator::name));

// Operators whose output has elements of their first input. Sorted.
constexpr auto kSteps = std::to_array<std::string_view>({"Flatten", "Gather", "GatherElements", "GatherND", "Identity",
                                                         "Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze"});
constexpr int kMaxSteps = 8;  // from a tensor to an operator that uses it

bool is_step(std::string_view op_type) { return std::ranges::binary_search(kSteps, op_type); }

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

// Finds the tensor that a value of a graph is, or has its elements of.
class Values {
 public:
  Values(const TensorList& tensors, const std::vector<PackedWeights::Step>& steps) : names_(tensors) {
    for (const PackedWeights::Step& step : steps) steps_.push_back(&step);
    std::ranges::stable_sort(steps_, {}, &key);
  }

  std::optional<size_t> tensor(std::string_view scope, std::string_view name) const {
    for (int left = kMaxSteps; left > 0 && !name.empty(); --left) {
      if (const auto found = names_.find(scope, name)) return found;
      const PackedWeights::Step* const before = step(scope, name);
      if (before == nullptr) break;
      scope = before->scope;
      name = before->input;
    }
    return std::nullopt;
  }

 private:
  static std::pair<std::string_view, std::string_view> key(const PackedWeights::Step* step) {
    return {step->scope, step->output};
  }

  const PackedWeights::Step* step(std::string_view scope, std::string_view name) const {
    for (const std::string_view where : {scope, std::string_view()}) {
      const auto at = std::ranges::lower_bound(steps_, std::pair(where, name), {}, &key);
      if (at != steps_.end() && key(*at) == std::pair(where, name)) return *at;
    }
    return nullptr;
  }

  Names names_;
  std::vector<const PackedWeights::Step*> steps_;
};

}  // namespace

bool may_use_packed_weights(std::string_view op_type) { return row_of(op_type) != kNone || is_step(op_type); }

void set_attribute(std::string_view name, uint64_t value, PackingAttributes& out) {
  if (name == "K") out.rows = value;
  if (name == "N") out.columns = value;
  if (name == "bits" || name == "expert_weight_bits") out.bits = value;
  if (name == "block_size") out.block_size = value;
}

Result<void> PackedWeights::add(Node node, Budget& budget) {
  uint64_t size = node.scope.size();
  const size_t row = row_of(node.op_type);
  if (row == kNone) {
    if (node.inputs.empty()) return {};
    TRY_VOID(budget.charge(Cost::value, 3));
    TRY_VOID(budget.charge(Cost::kept, size + node.first_output.size() + node.inputs.front().size()));
    steps_.push_back({std::move(node.scope), std::move(node.first_output), std::move(node.inputs.front())});
    return {};
  }
  for (const std::string& input : node.inputs) size += input.size();
  TRY_VOID(budget.charge(Cost::value, 2 + node.inputs.size()));
  TRY_VOID(budget.charge(Cost::kept, size));
  uses_.push_back({row, std::move(node.inputs), std::move(node.scope), node.attributes});
  return {};
}

void PackedWeights::finish(Model& out) {
  if (uses_.empty()) return;
  const Values values(out.tensors, steps_);
  auto& packed = out.per_tensor.edit().packed_weights;
  for (const Use& use : uses_) {
    const Operator& row = kOperators[use.row];
    const auto tensor_of = [&](size_t input) -> std::optional<size_t> {
      if (input >= use.inputs.size()) return std::nullopt;
      return values.tensor(use.scope, use.inputs[input]);
    };
    for (const Operand& operand : row.operands) {
      const auto weights = tensor_of(operand.data);
      if (weights && !out.tensors.shape(*weights).empty())
        packed.insert_or_assign(*weights, weight_of(row, use.attributes, out.tensors[*weights]));
      for (const size_t input : operand.companions)
        if (const auto companion = tensor_of(input); companion && companion != weights)
          packed.emplace(*companion, PackedWeight{.is_companion = true, .elements = {}, .method = {}});
    }
  }
  uses_.clear();
  steps_.clear();
}

}  // namespace weightfs::onnx
