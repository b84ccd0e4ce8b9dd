#include "formats/computed/scaled.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <memory>
#include <tuple>

#include "base/text.h"
#include "formats/computed/row_packed.h"
#include "formats/float32.h"

namespace weightfs::computed {
namespace {

using summary::Fields;
using summary::Number;

constexpr auto kFloat8 = std::to_array<std::string_view>({"float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2"});
constexpr auto kScaleTypes = std::to_array<std::string_view>({"float16", "bfloat16", "float32", "float8_e8m0fnu"});

uint64_t quotient_up(uint64_t a, uint64_t b) { return (a - 1) / b + 1; }

// Sets the size of a matrix that is read row by row.
Result<void> set_size(uint64_t outputs, uint64_t inputs, RowPacked& packed) {
  if (outputs == 0 || outputs > summary::kMaxNumber || inputs == 0 || inputs > kMaxColumns)
    return failure(Code::unsupported,
                   fmt::format("{} outputs of {} inputs; expected at most {} inputs, and one of each", outputs, inputs,
                               kMaxColumns));
  packed.outputs = outputs;
  packed.inputs = inputs;
  return {};
}

// The numbers of a tensor of another type that has its bytes.
SourcePtr values_as(TensorView tensor, std::string_view type) {
  tensor.dtype = dtype_named(type);
  return float32_values(tensor);
}

// Pairs of float4 in bytes, the first in the lower half.
Result<void> set_pairs(const TensorView& bytes, std::string_view end, RowPacked& packed) {
  if (bytes.shape.size() != 2 || bytes.shape[1] > kMaxColumns) return failure(other_form(end, bytes, "a matrix"));
  TRY_VOID(set_size(bytes.shape[0], bytes.shape[1] * 2, packed));
  TensorView pairs = bytes;
  const Shape shape{packed.outputs, packed.inputs};
  pairs.shape = shape;
  packed.numbers = values_as(pairs, "float4_e2m1fn");
  return {};
}

Result<void> set_numbers(const TensorView& weight, RowPacked& packed) {
  if (weight.shape.size() != 2) return failure(other_form("weight", weight, "a matrix"));
  TRY_VOID(set_size(weight.shape[0], weight.shape[1], packed));
  packed.numbers = float32_values(weight);
  return {};
}

// Which rows and columns share a scale.
void share_by(Block block, RowPacked& packed) {
  packed.rows_of_scale = block.first;
  packed.groups = {packed.groups.index, block.second, quotient_up(packed.inputs, block.second)};
}

// Scales of blocks.
Result<void> check_blocks(std::string_view end, const TensorView& scales, const RowPacked& packed) {
  const Shape shape{quotient_up(packed.outputs, packed.rows_of_scale), packed.groups.groups};
  if (scales.shape == ShapeView(shape)) return {};
  return failure(other_form(end, scales, fmt::format("[{}]", fmt::join(shape, ","))));
}

bool is_one(const TensorView& tensor) { return elements_of(tensor.shape) == 1; }

bool is_one_for_each_row(const TensorView& scales, const RowPacked& packed) {
  const bool is_column = scales.shape.size() == 1 || (scales.shape.size() == 2 && scales.shape[1] == 1);
  return is_column && scales.shape[0] == packed.outputs;
}

std::optional<Block> block_in(const List* list) {
  if (list == nullptr || list->size() != 2) return std::nullopt;
  const Number rows = summary::number_of(list->front()), columns = summary::number_of(list->back());
  if (rows.value_or(0) == 0 || columns.value_or(0) == 0) return std::nullopt;
  return Block{*rows, *columns};
}

Result<std::optional<Block>> stated_block(const Fields& fields, std::string_view name) {
  if (!fields.has(name)) return std::nullopt;
  const auto block = block_in(fields.list(name));
  if (!block) return failure(Code::unsupported, fmt::format("{} is not a list of two positive sizes", name));
  return block;
}

}  // namespace

Result<ScaledRules> fp8_rules(const Fields& quantisation) {
  return ScaledRules{.block = TRY(stated_block(quantisation, "weight_block_size"))};
}

Result<ScaledRules> modelopt_rules(const Fields& quantisation) {
  const std::string algorithm = quantisation.text({"quant_algo"});
  if (algorithm != "FP8" && algorithm != "NVFP4")
    return failure(Code::unsupported, fmt::format("quant_algo is {}; expected FP8 or NVFP4",
                                                  algorithm.empty() ? "missing" : printable(algorithm)));
  const Number group_size = quantisation.positive({"group_size"});
  if (algorithm == "NVFP4" && group_size.value_or(16) != 16)
    return failure(Code::unsupported, fmt::format("group_size is {}; expected 16", *group_size));
  return ScaledRules{.is_nvfp4 = algorithm == "NVFP4"};
}

Result<MatrixPtr> scaled_matrix(const ScaledRules& rules, ModulePieces& pieces) {
  RowPacked packed{};
  if (rules.is_nvfp4) {
    const TensorView weight = TRY(pieces.take("weight", {"uint8"}));
    TRY_VOID(set_pairs(weight, "weight", packed));
    share_by({1, 16}, packed);
    const TensorView scales = TRY(pieces.take("weight_scale", {"float8_e4m3fn"}));
    TRY_VOID(check_blocks("weight_scale", scales, packed));
    const TensorView global = TRY(pieces.take("weight_scale_2", {"float32"}));
    if (!is_one(global)) return failure(other_form("weight_scale_2", global, "one number"));
    packed.scales = float32_values(scales);
    packed.global = float32_values(global);
    return matrix_of(packed);
  }
  const TensorView weight = TRY(pieces.take("weight", kFloat8));
  TRY_VOID(set_numbers(weight, packed));
  const char* const end = pieces.has("weight_scale_inv") ? "weight_scale_inv" : "weight_scale";
  if (pieces.has("weight_scale_inv") && pieces.has("weight_scale"))
    return failure(Code::unsupported, "weight_scale and weight_scale_inv are both there");
  const TensorView scales = TRY(pieces.take(end, kScaleTypes));
  packed.scales = float32_values(scales);
  if (rules.block) {
    share_by(*rules.block, packed);
    TRY_VOID(check_blocks(end, scales, packed));
  } else if (is_one(scales)) {
    share_by({packed.outputs, packed.inputs}, packed);
  } else if (is_one_for_each_row(scales, packed)) {
    share_by({1, packed.inputs}, packed);
  } else {
    return failure(other_form(end, scales, fmt::format("one number, or {}", packed.outputs)));
  }
  return matrix_of(packed);
}

Result<CompressedRules> compressed_rules(const Fields& group, std::string_view format) {
  const Fields weights = group.object({"weights"});
  if (!weights) return failure(Code::unsupported, "a group of config_groups states no weights");
  CompressedRules rules;
  rules.packing = group.text({"format"});
  if (rules.packing.empty()) rules.packing = format;
  rules.strategy = lower_case(weights.text({"strategy"}));
  const Number bits = weights.number({"num_bits"});
  if (bits.value_or(0) == 0 || *bits > 8)
    return failure(Code::unsupported, bits ? fmt::format("num_bits is {}; expected 1 to 8", *bits) : "no num_bits");
  rules.bits = static_cast<uint32_t>(*bits);
  const std::string type = weights.text({"type"});
  rules.is_integer = type.empty() || type == "int";
  rules.is_symmetric = weights.flag("symmetric").value_or(true);
  const std::string order = lower_case(weights.text({"actorder"}));
  rules.is_reordered = order == "group" || order == "dynamic" || weights.flag("actorder").value_or(false);
  rules.group_size = weights.positive({"group_size"}).value_or(0);
  rules.block = TRY(stated_block(weights, "block_structure"));
  return rules;
}

namespace {

// The integers of pack-quantized. Scales of groups tell the number of inputs, so that only reading a weight needs
// weight_shape; else the last word of a row may be padded.
Result<void> set_words(const CompressedRules& rules, ModulePieces& pieces, RowPacked& packed) {
  const TensorView shape = TRY(pieces.take("weight_shape", {"int32", "int64"}, {2}));
  const TensorView weights = TRY(pieces.take("weight_packed", {"int32"}));
  const auto groups = pieces.shape_of("weight_scale");
  packed.bits = rules.bits;
  packed.words = std::make_shared<Slice>(weights.source);
  packed.shape = std::make_shared<Slice>(shape.source);
  if (weights.shape.size() != 2) return failure(other_form("weight_packed", weights, "a matrix"));
  uint64_t outputs = weights.shape[0];
  uint64_t inputs = 0;
  if (rules.group_size > 0 && rules.group_size <= kMaxColumns && groups.size() == 2 && groups[1] <= kMaxColumns)
    inputs = groups[1] * rules.group_size;
  else
    std::tie(outputs, inputs) = TRY(read_shape(*packed.shape, Reading::some));
  TRY_VOID(set_size(outputs, inputs, packed));
  const Shape expected{outputs, quotient_up(inputs, 32 / rules.bits)};
  if (weights.shape == ShapeView(expected)) return {};
  return failure(other_form("weight_packed", weights, fmt::format("[{}]", fmt::join(expected, ","))));
}

Result<void> set_weights(const CompressedRules& rules, ModulePieces& pieces, RowPacked& packed) {
  const std::string& format = rules.packing;
  const bool is_packed = pieces.has("weight_packed");
  if (format == "pack-quantized" && is_packed && rules.is_integer) return set_words(rules, pieces, packed);
  if ((format == "nvfp4-pack-quantized" || format == "mxfp4-pack-quantized") && is_packed && !rules.is_integer &&
      rules.bits == 4)
    return set_pairs(TRY(pieces.take("weight_packed", {"uint8"})), "weight_packed", packed);
  const bool is_integer_format = format == "int-quantized" || format == "naive-quantized";
  const bool is_float_format = format == "float-quantized" || format == "naive-quantized";
  if (is_integer_format && !is_packed && rules.is_integer)
    return set_numbers(TRY(pieces.take("weight", {"int8"})), packed);
  if (is_float_format && !is_packed && !rules.is_integer && rules.bits == 8)
    return set_numbers(TRY(pieces.take("weight", {"float8_e4m3fn"})), packed);
  return failure(Code::unsupported, fmt::format("no weights of {} bits are known in the format {} with {}", rules.bits,
                                                printable(format), is_packed ? "weight_packed" : "weight"));
}

Result<void> set_strategy(const CompressedRules& rules, const TensorView& scales, RowPacked& packed) {
  std::string strategy = rules.strategy;
  if (strategy.empty()) strategy = rules.group_size > 0 ? "group" : is_one(scales) ? "tensor" : "channel";
  if (strategy == "tensor" && is_one(scales)) {
    share_by({packed.outputs, packed.inputs}, packed);
  } else if (strategy == "channel" && is_one_for_each_row(scales, packed)) {
    share_by({1, packed.inputs}, packed);
  } else if ((strategy == "group" || strategy == "tensor_group") && rules.group_size > 0) {
    share_by({1, rules.group_size}, packed);
    if (packed.inputs % rules.group_size != 0)
      return failure(Code::unsupported, fmt::format("{} inputs in groups of {}", packed.inputs, rules.group_size));
    return check_blocks("weight_scale", scales, packed);
  } else if (strategy == "block" && rules.block) {
    share_by(*rules.block, packed);
    return check_blocks("weight_scale", scales, packed);
  } else {
    return failure(Code::unsupported, fmt::format("weight_scale is {}, for {} rows and the strategy {}",
                                                  form_text(scales), packed.outputs, printable(strategy)));
  }
  return {};
}

Result<void> set_scales(const CompressedRules& rules, ModulePieces& pieces, RowPacked& packed) {
  if (rules.packing == "mxfp4-pack-quantized") {
    const TensorView scales = TRY(pieces.take("weight_scale", {"uint8", "float8_e8m0fnu"}));
    packed.scales = values_as(scales, "float8_e8m0fnu");
    return set_strategy(rules, scales, packed);
  }
  const bool is_nvfp4 = rules.packing == "nvfp4-pack-quantized";
  const TensorView scales =
      is_nvfp4 ? TRY(pieces.take("weight_scale", {"float8_e4m3fn"})) : TRY(pieces.take("weight_scale", kRealTypes));
  packed.scales = float32_values(scales);
  if (is_nvfp4) {
    const TensorView global = TRY(pieces.take("weight_global_scale", {"float32"}));
    if (!is_one(global)) return failure(other_form("weight_global_scale", global, "one number"));
    packed.global = float32_values(global);
    packed.is_divided = true;
  }
  return set_strategy(rules, scales, packed);
}

Result<void> set_zeros(const CompressedRules& rules, ModulePieces& pieces, RowPacked& packed) {
  constexpr std::string_view kEnd = "weight_zero_point";
  if (!pieces.has(kEnd)) {
    if (rules.is_symmetric) return {};
    return failure(Code::unsupported, "weight_zero_point is missing, though symmetric is false");
  }
  const uint64_t rows = quotient_up(packed.outputs, packed.rows_of_scale);
  if (packed.words != nullptr && !rules.is_symmetric && pieces.has(kEnd, {"int32"})) {
    const Shape shape{quotient_up(rows, 32 / rules.bits), packed.groups.groups};
    packed.zero_words = std::make_shared<Slice>(TRY(pieces.take(kEnd, {"int32"}, shape)).source);
    return {};
  }
  const TensorView zeros = TRY(pieces.take(kEnd, {"int8", "float8_e4m3fn", "float16", "bfloat16", "float32"}));
  if (elements_of(zeros.shape) != rows * packed.groups.groups)
    return failure(other_form(kEnd, zeros, fmt::format("[{},{}]", rows, packed.groups.groups)));
  packed.zeros = float32_values(zeros);
  return {};
}

}  // namespace

Result<MatrixPtr> compressed_matrix(const CompressedRules& rules, ModulePieces& pieces) {
  RowPacked packed{};
  TRY_VOID(set_weights(rules, pieces, packed));
  TRY_VOID(set_scales(rules, pieces, packed));
  TRY_VOID(set_zeros(rules, pieces, packed));
  if (pieces.has("weight_g_idx"))
    packed.groups.index =
        std::make_shared<Slice>(TRY(pieces.take("weight_g_idx", {"int32", "int64"}, {packed.inputs})).source);
  else if (rules.is_reordered && packed.groups.groups > 1)
    return failure(Code::unsupported, "weight_g_idx is missing, though actorder is group");
  return matrix_of(packed);
}

}  // namespace weightfs::computed
