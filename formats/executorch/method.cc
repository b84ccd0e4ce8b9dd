#include "formats/executorch/method.h"

#include <fmt/core.h>

#include <array>

#include "formats/common/limits.h"

namespace weightfs::executorch {
namespace {

// The value of TensorDataLocation for data in another file.
constexpr int8_t kExternal = 1;

constexpr auto kValueKinds =
    std::to_array<std::string_view>({"", "Null", "Int", "Bool", "Double", "Tensor", "String", "IntList", "DoubleList",
                                     "BoolList", "TensorList", "OptionalTensorList"});
constexpr auto kInstructionKinds =
    std::to_array<std::string_view>({"", "KernelCall", "DelegateCall", "MoveCall", "JumpFalseCall", "FreeCall"});

// The offset is stored in two halves.
Result<Allocation> read_allocation(const flatbuffer::Table& table) {
  const auto memory = TRY(table.number<uint32_t>(0));
  const auto low = TRY(table.number<uint32_t>(1));
  const auto high = TRY(table.number<uint32_t>(2));
  return Allocation{memory, uint64_t{high} << 32 | low};
}

}  // namespace

Result<Method> read_method(const flatbuffer::Table& plan) {
  Method method;
  method.name = TRY(plan.text(0, kMaxNameLength));
  method.values = TRY(plan.tables(2));
  method.inputs = TRY(plan.list(3, sizeof(int32_t)));
  method.outputs = TRY(plan.list(4, sizeof(int32_t)));
  method.chains = TRY(plan.tables(5));
  method.operators = TRY(plan.tables(6));
  method.delegates = TRY(plan.tables(7));
  method.buffer_sizes = TRY(plan.list(8, sizeof(int64_t)));
  return method;
}

Result<Chain> read_chain(const flatbuffer::List& chains, uint64_t index) {
  const auto table = TRY(chains.table(index));
  Chain chain;
  chain.inputs = TRY(table.list(0, sizeof(int32_t)));
  chain.outputs = TRY(table.list(1, sizeof(int32_t)));
  chain.instructions = TRY(table.tables(2));
  return chain;
}

Result<Member> read_member(const flatbuffer::List& tables, uint64_t index) {
  const auto table = TRY(tables.table(index));
  Member member;
  member.number = TRY(table.number<uint8_t>(0));
  if (member.number != 0) member.table = TRY(table.table(1));
  return member;
}

std::string_view value_kind_name(uint8_t number) { return number < kValueKinds.size() ? kValueKinds[number] : ""; }

std::string_view instruction_kind_name(uint8_t number) {
  return number < kInstructionKinds.size() ? kInstructionKinds[number] : "";
}

std::string ValueTensor::shown_name() const {
  return name.empty() && has_data() ? fmt::format("{}_{}", allocation ? "mutable" : "constant", buffer) : name;
}

Result<ValueTensor> read_value_tensor(const flatbuffer::Table& table) {
  ValueTensor tensor;
  tensor.scalar_type = TRY(table.number<int8_t>(0));
  tensor.sizes = TRY(table.list(2, sizeof(int32_t)));
  tensor.dim_order = TRY(table.list(3, sizeof(uint8_t)));
  tensor.buffer = TRY(table.number<uint32_t>(5));
  if (const auto allocation = TRY(table.table(6)); allocation.exists())
    tensor.allocation = TRY(read_allocation(allocation));
  const auto extra = TRY(table.table(9));
  tensor.mutable_segment = TRY(extra.number<uint64_t>(0));
  tensor.name = TRY(extra.text(1, kMaxNameLength));
  const auto location = TRY(extra.number<int8_t>(2));
  tensor.is_external = location == kExternal;
  return tensor;
}

Result<std::string> operator_name(const flatbuffer::Table& op) {
  const std::string name = TRY(op.text(0, kMaxNameLength));
  const std::string overload = TRY(op.text(1, kMaxNameLength));
  return overload.empty() ? name : fmt::format("{}.{}", name, overload);
}

}  // namespace weightfs::executorch
