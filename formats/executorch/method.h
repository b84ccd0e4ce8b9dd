// The tables of a method of a .pte file: its values, and the instructions of its chains.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "formats/executorch/file.h"

namespace weightfs::executorch {

/// An ExecutionPlan.
struct Method {
  std::string name;
  flatbuffer::List values;  ///< of EValue
  flatbuffer::List inputs;  ///< indices of values: int32
  flatbuffer::List outputs;
  flatbuffer::List chains;
  flatbuffer::List operators;
  flatbuffer::List delegates;
  flatbuffer::List buffer_sizes;  ///< int64: bytes of the memories that are planned
};

Result<Method> read_method(const flatbuffer::Table& plan);

/// A sequence of instructions.
struct Chain {
  flatbuffer::List inputs;  ///< indices of values: int32
  flatbuffer::List outputs;
  flatbuffer::List instructions;
};

/// Reads the chain at `index`, which is less than the list's size.
Result<Chain> read_chain(const flatbuffer::List& chains, uint64_t index);

/// A member of a union: of KernelTypes for a value, of InstructionArguments for an instruction.
struct Member {
  uint8_t number = 0;       ///< 0 for none
  flatbuffer::Table table;  ///< may be a default one
};

/// Reads the union that the table at `index`, which is less than the list's size, consists of.
Result<Member> read_member(const flatbuffer::List& tables, uint64_t index);

/// The numbers of KernelTypes.
enum ValueKind : uint8_t {
  kNull = 1,
  kInt,
  kBool,
  kDouble,
  kTensor,
  kText,
  kIntList,
  kDoubleList,
  kBoolList,
  kTensorList,
  kOptionalTensorList,
};

/// The numbers of InstructionArguments.
enum InstructionKind : uint8_t { kKernelCall = 1, kDelegateCall, kMoveCall, kJumpFalseCall, kFreeCall };

/// The schema's names: "IntList", "KernelCall"; empty for a number of a newer schema.
std::string_view value_kind_name(uint8_t number);
std::string_view instruction_kind_name(uint8_t number);

/// Where the runtime places a tensor.
struct Allocation {
  uint32_t memory = 0;
  uint64_t offset = 0;  ///< in bytes
};

/// A tensor among the values of a method.
struct ValueTensor {
  int8_t scalar_type = 0;
  flatbuffer::List sizes;      ///< int32
  flatbuffer::List dim_order;  ///< uint8
  uint32_t buffer = 0;         ///< index of its data; 0 for none
  std::optional<Allocation> allocation;
  uint64_t mutable_segment = 0;
  std::string name;  ///< may be empty
  bool is_external = false;

  bool has_data() const { return buffer != 0 && !is_external; }
  bool is_mutable() const { return has_data() && allocation; }

  /// The name of its tensor in the model: its own, or one with the index of its data.
  std::string shown_name() const;
};

Result<ValueTensor> read_value_tensor(const flatbuffer::Table& table);

/// The name of an operator: "aten::add.out".
Result<std::string> operator_name(const flatbuffer::Table& op);

}  // namespace weightfs::executorch
