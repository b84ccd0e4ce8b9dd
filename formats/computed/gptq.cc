#include "formats/computed/gptq.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <memory>

#include "base/text.h"
#include "formats/computed/column_packed.h"
#include "formats/float32.h"

namespace weightfs::computed {
namespace {

using summary::Fields;
using summary::Number;

SourcePtr bytes_of_tensor(const TensorView& tensor) { return std::make_shared<Slice>(tensor.source); }

// Whether it has two sizes, of which products with 32 do not overflow.
bool is_matrix(const TensorView& tensor) {
  return tensor.shape.size() == 2 &&
         std::ranges::all_of(tensor.shape, [](uint64_t size) { return size > 0 && size <= summary::kMaxNumber; });
}

// The first of these texts in lower case; `otherwise` if there is none.
std::string text_or(const Fields& fields, summary::Names names, std::string_view otherwise) {
  const std::string text = fields.text(names);
  return text.empty() ? std::string(otherwise) : lower_case(text);
}

// The size of groups; 0 for -1, which means that there is one.
Result<uint64_t> group_size_of(const Fields& fields, std::string_view name) {
  const Value* const value = fields.find(name);
  if (value == nullptr) return failure(Code::unsupported, fmt::format("no {}", name));
  if (const auto* const signed_number = std::get_if<int64_t>(value); signed_number != nullptr && *signed_number == -1)
    return uint64_t{0};
  const Number number = summary::number_of(*value);
  if (number.value_or(0) == 0) return failure(Code::unsupported, fmt::format("{} is neither -1 nor positive", name));
  return *number;
}

// The number of groups; nothing if the inputs do not fit.
Result<GroupIndex> group_index(uint64_t group_size, uint64_t inputs) {
  if (inputs == 0 || inputs > kMaxColumns)
    return failure(Code::unsupported, fmt::format("{} inputs; expected 1 to {}", inputs, kMaxColumns));
  const uint64_t size = group_size == 0 ? inputs : group_size;
  return GroupIndex{nullptr, size, (inputs - 1) / size + 1};
}

}  // namespace

namespace {

// What an object states in place of `rules`.
Result<GptqRules> with_stated(GptqRules rules, const Fields& stated) {
  static constexpr auto kBits = std::to_array<uint64_t>({2, 3, 4, 8});
  if (const Number bits = stated.number({"bits"})) {
    if (std::ranges::find(kBits, *bits) == kBits.end())
      return failure(Code::unsupported, fmt::format("bits is {}; expected 2, 3, 4 or 8", *bits));
    rules.bits = static_cast<uint32_t>(*bits);
  }
  if (stated.has("group_size")) rules.group_size = TRY(group_size_of(stated, "group_size"));
  if (const auto is_symmetric = stated.flag("sym")) rules.is_symmetric = is_symmetric;
  if (const auto is_reordered = stated.flag("desc_act")) rules.is_reordered = is_reordered;
  return rules;
}

// Rules that no shape tells apart become one.
void add_rules(const GptqRules& rules, std::vector<GptqRules>& all) {
  const auto same = std::ranges::find_if(
      all, [&](const GptqRules& other) { return other.bits == rules.bits && other.group_size == rules.group_size; });
  if (same == all.end()) return all.push_back(rules);
  if (same->is_symmetric != rules.is_symmetric) same->is_symmetric = false;
  if (same->is_reordered != rules.is_reordered) same->is_reordered = true;
}

}  // namespace

Result<std::vector<GptqRules>> gptq_rules(const Fields& quantisation) {
  constexpr size_t kMaxRules = 16;
  if (!quantisation.has("bits")) return failure(Code::unsupported, "no bits");
  if (!quantisation.has("group_size")) return failure(Code::unsupported, "no group_size");
  const std::string format = text_or(quantisation, {"checkpoint_format", "format"}, "gptq");
  if (format != "gptq" && format != "gptq_v2")
    return failure(Code::unsupported,
                   fmt::format("checkpoint_format is {}; expected gptq or gptq_v2", printable(format)));
  if (quantisation.flag("is_marlin_format").value_or(false))
    return failure(Code::unsupported, "is_marlin_format is true; expected false");
  std::vector<GptqRules> all = {TRY(
      with_stated({.is_second_version = format == "gptq_v2", .is_symmetric = {}, .is_reordered = {}}, quantisation))};
  if (all.front().bits == 0) return failure(Code::unsupported, "bits is not a number");
  // The patterns of names are not read: the shapes of a module tell which of the rules it has.
  const Fields dynamic = quantisation.object({"dynamic"});
  if (!dynamic) return all;
  for (const auto& [pattern, value] : *dynamic.map()) {
    const auto rules = with_stated(all.front(), dynamic.object({pattern}));
    if (rules && all.size() < kMaxRules) add_rules(*rules, all);
  }
  return all;
}

namespace {

Result<MatrixPtr> matrix_by(const GptqRules& rules, ModulePieces& pieces) {
  const TensorView weights = TRY(pieces.take("qweight", {"int32"}));
  const TensorView scales = TRY(pieces.take("scales", kRealTypes));
  if (!is_matrix(weights) || weights.shape[0] * 32 % rules.bits != 0)
    return failure(other_form("qweight", weights, fmt::format("rows of {} bits in a matrix", rules.bits)));
  ColumnPacked packed{};
  packed.bits = rules.bits;
  packed.outputs = weights.shape[1];
  packed.inputs = weights.shape[0] * 32 / rules.bits;
  packed.groups = TRY(group_index(rules.group_size, packed.inputs));
  if (const Shape expected{packed.groups.groups, packed.outputs}; !(scales.shape == ShapeView(expected)))
    return failure(other_form("scales", scales, fmt::format("[{},{}]", expected[0], expected[1])));
  if (pieces.has("g_idx")) {
    packed.groups.index = bytes_of_tensor(TRY(pieces.take("g_idx", {"int32", "int64"}, {packed.inputs})));
    packed.is_in_order = rules.is_reordered.has_value() && !*rules.is_reordered;
  } else if (rules.is_reordered.value_or(false) && packed.groups.groups > 1) {
    return failure(Code::unsupported, "g_idx is missing, though desc_act is true");
  }
  if (pieces.has("qzeros")) {
    if (packed.outputs * rules.bits % 32 != 0)
      return failure(other_form("qweight", weights, "columns that fill whole numbers of qzeros"));
    const Shape shape{packed.groups.groups, packed.outputs * rules.bits / 32};
    packed.zeros = bytes_of_tensor(TRY(pieces.take("qzeros", {"int32"}, shape)));
    packed.zero = rules.is_second_version ? 0 : 1;
  } else if (rules.is_symmetric.value_or(false)) {
    packed.zero = 1U << (rules.bits - 1);
  } else {
    return failure(Code::unsupported, "qzeros is missing, though sym is not true");
  }
  packed.weights = bytes_of_tensor(weights);
  packed.scales = float32_values(scales);
  return matrix_of(packed);
}

}  // namespace

Result<MatrixPtr> gptq_matrix(const std::vector<GptqRules>& rules, ModulePieces& pieces) {
  Result<MatrixPtr> found = matrix_by(rules.front(), pieces);
  for (const GptqRules& others : std::span(rules).subspan(1)) {
    ModulePieces again = pieces.untaken();
    Result<MatrixPtr> other = matrix_by(others, again);
    if (!other) continue;
    if (found) return failure(Code::unsupported, "several rules of dynamic fit its tensors");
    found = std::move(other);
    pieces.take_as(again);
  }
  return found;
}

Result<uint64_t> awq_group_size(const Fields& quantisation) {
  const Number bits = quantisation.number({"bits", "w_bit"});
  if (bits != 4) return failure(Code::unsupported, bits ? fmt::format("bits is {}; expected 4", *bits) : "no bits");
  const std::string version = text_or(quantisation, {"version", "checkpoint_format", "format"}, "gemm");
  if (version != "gemm")
    return failure(Code::unsupported, fmt::format("version is {}; expected gemm", printable(version)));
  if (!quantisation.flag("zero_point").value_or(true))
    return failure(Code::unsupported, "zero_point is false; expected true");
  return group_size_of(quantisation, quantisation.has("group_size") ? "group_size" : "q_group_size");
}

Result<MatrixPtr> awq_matrix(uint64_t group_size, ModulePieces& pieces) {
  const TensorView weights = TRY(pieces.take("qweight", {"int32"}));
  if (!is_matrix(weights)) return failure(other_form("qweight", weights, "a matrix"));
  ColumnPacked packed{};
  packed.order = ColumnPacked::Order::awq;
  packed.bits = 4;
  packed.inputs = weights.shape[0];
  packed.outputs = weights.shape[1] * 8;
  packed.groups = TRY(group_index(group_size, packed.inputs));
  if (packed.inputs % packed.groups.size != 0)
    return failure(other_form("qweight", weights, fmt::format("groups of {} inputs", packed.groups.size)));
  const uint64_t groups = packed.groups.groups;
  packed.scales = float32_values(TRY(pieces.take("scales", kRealTypes, {groups, packed.outputs})));
  packed.zeros = bytes_of_tensor(TRY(pieces.take("qzeros", {"int32"}, {groups, weights.shape[1]})));
  packed.weights = bytes_of_tensor(weights);
  return matrix_of(packed);
}

}  // namespace weightfs::computed
