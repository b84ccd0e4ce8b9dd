#include "formats/executorch/graph.h"

#include <fmt/core.h>

#include "base/values/value.h"
#include "formats/common/limits.h"
#include "formats/executorch/method.h"
#include "formats/executorch/types.h"
#include "formats/flatbuffer/json.h"

namespace weightfs::executorch {
namespace {

using flatbuffer::append_integers;
using flatbuffer::append_list;
using flatbuffer::Table;

constexpr flatbuffer::Slot kMethods = 1;  // of the program

// The names of all operators or delegates of a method. They are charged to `charges`.
template <class Read>
Result<std::vector<std::string>> names_of(const flatbuffer::List& tables, Charges& charges, const Read& read) {
  std::vector<std::string> out;
  for (uint64_t i = 0; i < tables.size(); ++i) {
    const Table table = TRY(tables.table(i));
    std::string name = TRY(read(table));
    TRY_VOID(charges.charge(Cost::value));
    TRY_VOID(charges.charge(Cost::kept, name.size()));
    out.push_back(std::move(name));
  }
  return out;
}

Result<std::string> delegate_name(const Table& delegate) { return delegate.text(0, kMaxNameLength); }

// The size of the elements of a value that is a list or a text; 0 for other values.
uint64_t element_size(uint8_t kind) {
  switch (kind) {
    case kIntList:
    case kDoubleList:
      return 8;
    case kTensorList:
    case kOptionalTensorList:
      return 4;
    case kBoolList:
    case kText:
      return 1;
    default:
      return 0;
  }
}

// Counts everything that the writer below reads.
class MethodCheck {
 public:
  explicit MethodCheck(const File& file) : file_(file), most_(2 * file.source->size() + kSharedSize), left_(most_) {}

  Result<void> run() {
    const auto methods = TRY(file_.root.tables(kMethods));
    for (uint64_t i = 0; i < methods.size(); ++i) {
      const Table plan = TRY(methods.table(i));
      const Method read = TRY(read_method(plan));
      TRY_VOID(method(read));
    }
    return {};
  }

 private:
  // The smallest size of a table: the offset to it, and its own to its vtable.
  static constexpr uint64_t kTableSize = 8;

  Result<void> method(const Method& method) {
    TRY_VOID(count(kTableSize + method.name.size() + sizeof(int32_t) * (method.inputs.size() + method.outputs.size()) +
                   sizeof(int64_t) * method.buffer_sizes.size()));
    std::vector<uint64_t> operators;  // lengths of names, which are written at each call
    std::vector<uint64_t> delegates;
    for (uint64_t i = 0; i < method.operators.size(); ++i)
      TRY_VOID(name(method.operators, i, operator_name, operators));
    for (uint64_t i = 0; i < method.delegates.size(); ++i)
      TRY_VOID(name(method.delegates, i, delegate_name, delegates));
    for (uint64_t i = 0; i < method.values.size(); ++i) {
      const Member value = TRY(read_member(method.values, i));
      const uint64_t size = TRY(value_size(value));
      TRY_VOID(count(kTableSize + size));
    }
    for (uint64_t i = 0; i < method.chains.size(); ++i) {
      const Chain read = TRY(read_chain(method.chains, i));
      TRY_VOID(chain(read, operators, delegates));
    }
    return {};
  }

  Result<void> name(const flatbuffer::List& tables, uint64_t index, Result<std::string> (*read)(const Table&),
                    std::vector<uint64_t>& lengths) {
    const Table table = TRY(tables.table(index));
    const std::string text = TRY(read(table));
    lengths.push_back(text.size());
    return count(kTableSize + text.size());
  }

  Result<void> chain(const Chain& chain, const std::vector<uint64_t>& operators,
                     const std::vector<uint64_t>& delegates) {
    TRY_VOID(count(kTableSize + sizeof(int32_t) * (chain.inputs.size() + chain.outputs.size())));
    for (uint64_t i = 0; i < chain.instructions.size(); ++i) {
      const Member read = TRY(read_member(chain.instructions, i));
      const uint64_t size = TRY(instruction_size(read, operators, delegates));
      TRY_VOID(count(kTableSize + size));
    }
    return {};
  }

  static Result<uint64_t> instruction_size(const Member& instruction, const std::vector<uint64_t>& operators,
                                           const std::vector<uint64_t>& delegates) {
    TRY_VOID(instruction.table.number<int32_t>(0));
    if (instruction.number != kKernelCall && instruction.number != kDelegateCall) {
      TRY_VOID(instruction.table.number<int32_t>(1));
      return uint64_t{0};
    }
    const auto& names = instruction.number == kKernelCall ? operators : delegates;
    const auto callee = static_cast<uint32_t>(TRY(instruction.table.number<int32_t>(0)));
    const auto args = TRY(instruction.table.list(1, sizeof(int32_t)));
    return (callee < names.size() ? names[callee] : 0) + sizeof(int32_t) * args.size();
  }

  static Result<uint64_t> value_size(const Member& value) {
    if (value.number == kTensor) {
      const ValueTensor tensor = TRY(read_value_tensor(value.table));
      return tensor.name.size() + sizeof(int32_t) * tensor.sizes.size() + tensor.dim_order.size();
    }
    if (value.number == kBool) TRY_VOID(value.table.number<uint8_t>(0));
    if (value.number == kInt || value.number == kDouble) TRY_VOID(value.table.number<uint64_t>(0));
    const uint64_t width = element_size(value.number);
    if (width == 0) return uint64_t{0};
    const auto items = TRY(value.table.list(0, width));
    return width * items.size();
  }

  Result<void> count(uint64_t size) {
    if (size > left_)
      return failure(Code::unsupported, fmt::format("methods of more than {} bytes, counted at each use", most_));
    left_ -= size;
    return {};
  }

  const File& file_;
  uint64_t most_;  // bytes
  uint64_t left_;
};

class MethodWriter {
 public:
  MethodWriter(const File& file, Budget& budget, GraphWriter& out) : file_(file), budget_(budget), out_(out) {}

  Result<void> run() {
    const auto methods = TRY(file_.root.tables(kMethods));
    out_.begin('{');
    out_.begin("methods", '[');
    for (uint64_t i = 0; i < methods.size(); ++i) {
      const Table plan = TRY(methods.table(i));
      const Method read = TRY(read_method(plan));
      TRY_VOID(method(read));
    }
    return out_.end("]}");
  }

 private:
  Result<void> method(const Method& method) {
    Charges charges(budget_);  // released with the names
    const auto operators = TRY(names_of(method.operators, charges, operator_name));
    const auto delegates = TRY(names_of(method.delegates, charges, delegate_name));
    out_.begin_node();
    TRY_VOID(out_.text_attribute("name", method.name));
    TRY_VOID(append_integers<int32_t>(out_, "inputs", method.inputs));
    TRY_VOID(append_integers<int32_t>(out_, "outputs", method.outputs));
    TRY_VOID(append_integers<int64_t>(out_, "non_const_buffer_sizes", method.buffer_sizes));
    out_.begin("values", '[');
    for (uint64_t i = 0; i < method.values.size(); ++i) {
      const Member read = TRY(read_member(method.values, i));
      TRY_VOID(begin_node(i, "kind", value_kind_name(read.number), read.number));
      TRY_VOID(value(read));
      TRY_VOID(out_.end("}"));
    }
    TRY_VOID(out_.end("]"));
    out_.begin("chains", '[');
    for (uint64_t i = 0; i < method.chains.size(); ++i) {
      const Chain read = TRY(read_chain(method.chains, i));
      TRY_VOID(chain(read, operators, delegates));
    }
    return out_.end("]}");
  }

  Result<void> value(const Member& value) {
    switch (value.number) {
      case kInt:
        return out_.attribute("value", std::to_string(TRY(value.table.number<int64_t>(0))));
      case kBool:
        return out_.attribute("value", boolean(TRY(value.table.number<uint8_t>(0))));
      case kDouble:
        return out_.attribute("value", to_json_line(TRY(value.table.number<double>(0))));
      case kTensor:
        return tensor(TRY(read_value_tensor(value.table)));
      case kText:
        return string(value.table);
      case kIntList:
        return append_integers<int64_t>(out_, "items", TRY(value.table.list(0, sizeof(int64_t))));
      case kDoubleList:
        return append_list<double>(out_, "items", TRY(value.table.list(0, sizeof(double))),
                                   [](double number) { return to_json_line(number); });
      case kBoolList:
        return append_list<uint8_t>(out_, "items", TRY(value.table.list(0, sizeof(uint8_t))), boolean);
      case kTensorList:
      case kOptionalTensorList:
        return append_integers<int32_t>(out_, "items", TRY(value.table.list(0, sizeof(int32_t))));
      default:
        return {};
    }
  }

  // A long text is shown by its place in the file.
  Result<void> string(const Table& table) {
    const auto bytes = TRY(table.list(0, 1));
    if (bytes.size() <= kMaxNameLength) return out_.text_attribute("value", TRY(table.text(0, kMaxNameLength)));
    return out_.attribute("value", fmt::format("{{\"offset\":{},\"nbytes\":{}}}", bytes.position(), bytes.size()));
  }

  Result<void> tensor(const ValueTensor& tensor) {
    if (const std::string name = tensor.shown_name(); !name.empty()) TRY_VOID(out_.text_attribute("name", name));
    const TypeCode* const type = kScalarTypes.find(tensor.scalar_type);
    TRY_VOID(out_.text_attribute("dtype", dtype_of(type)->name));
    const std::string stored = type == nullptr ? std::to_string(tensor.scalar_type) : fmt::format("\"{}\"", type->name);
    TRY_VOID(out_.attribute("stored_dtype", stored));
    TRY_VOID(append_integers<int32_t>(out_, "shape", tensor.sizes));
    TRY_VOID(append_integers<uint8_t>(out_, "dim_order", tensor.dim_order));
    if (tensor.is_external) TRY_VOID(out_.attribute("external", "true"));
    if (tensor.has_data()) {
      TRY_VOID(out_.attribute(tensor.is_mutable() ? "mutable" : "constant", "true"));
      TRY_VOID(out_.attribute("data_buffer_idx", std::to_string(tensor.buffer)));
    }
    if (!tensor.allocation) return {};
    return out_.attribute("allocation", fmt::format("{{\"memory_id\":{},\"offset\":{}}}", tensor.allocation->memory,
                                                    tensor.allocation->offset));
  }

  Result<void> chain(const Chain& chain, const std::vector<std::string>& operators,
                     const std::vector<std::string>& delegates) {
    out_.begin('{');
    TRY_VOID(append_integers<int32_t>(out_, "inputs", chain.inputs));
    TRY_VOID(append_integers<int32_t>(out_, "outputs", chain.outputs));
    out_.begin("instructions", '[');
    for (uint64_t i = 0; i < chain.instructions.size(); ++i) {
      const Member read = TRY(read_member(chain.instructions, i));
      TRY_VOID(begin_node(i, "call", instruction_kind_name(read.number), read.number));
      TRY_VOID(instruction(read, operators, delegates));
      TRY_VOID(out_.end("}"));
    }
    return out_.end("]}");
  }

  Result<void> instruction(const Member& instruction, const std::vector<std::string>& operators,
                           const std::vector<std::string>& delegates) {
    switch (instruction.number) {
      case kKernelCall:
        TRY_VOID(callee("op", "op_index", operators, instruction.table));
        return append_integers<int32_t>(out_, "args", TRY(instruction.table.list(1, sizeof(int32_t))));
      case kDelegateCall:
        TRY_VOID(callee("delegate", "delegate_index", delegates, instruction.table));
        return append_integers<int32_t>(out_, "args", TRY(instruction.table.list(1, sizeof(int32_t))));
      case kMoveCall:
        TRY_VOID(number("move_from", instruction.table, 0));
        return number("move_to", instruction.table, 1);
      case kJumpFalseCall:
        TRY_VOID(number("cond_value_index", instruction.table, 0));
        return number("destination_instruction", instruction.table, 1);
      case kFreeCall:
        return number("value_index", instruction.table, 0);
      default:
        return {};
    }
  }

  // The name, if the method has so many, and the index.
  Result<void> callee(std::string_view key, std::string_view index_key, const std::vector<std::string>& names,
                      const Table& table) {
    const auto index = TRY(table.number<int32_t>(0));
    if (index >= 0 && static_cast<uint64_t>(index) < names.size())
      TRY_VOID(out_.text_attribute(key, names[static_cast<size_t>(index)]));
    return out_.attribute(index_key, std::to_string(index));
  }

  Result<void> begin_node(uint64_t index, std::string_view key, std::string_view kind, uint8_t number) {
    out_.begin_node();
    TRY_VOID(out_.attribute("id", std::to_string(index)));
    return out_.attribute(key, kind.empty() ? std::to_string(number) : fmt::format("\"{}\"", kind));
  }

  static std::string boolean(uint8_t number) { return number != 0 ? "true" : "false"; }

  Result<void> number(std::string_view key, const Table& table, flatbuffer::Slot slot) {
    return out_.attribute(key, std::to_string(TRY(table.number<int32_t>(slot))));
  }

  const File& file_;
  Budget& budget_;
  GraphWriter& out_;
};

}  // namespace

Result<void> check_methods(const File& file) { return MethodCheck(file).run(); }

Result<std::string> graph_json(const File& file, Budget& budget) {
  return graph_document(budget, [&](GraphWriter& out) { return MethodWriter(file, budget, out).run(); });
}

}  // namespace weightfs::executorch
