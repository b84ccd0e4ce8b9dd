#include "formats/executorch/graph.h"

#include <fmt/core.h>

#include "base/values/rendering.h"
#include "base/values/value.h"
#include "formats/executorch/method.h"
#include "formats/executorch/types.h"
#include "formats/flatbuffer/json.h"

namespace weightfs::executorch {
namespace {

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

// Writes line after line, so that memory holds the text and one line.
class GraphWriter {
 public:
  GraphWriter(const File& file, Budget& budget, TextSink& out) : file_(file), budget_(budget), out_(out) {}

  Result<void> run() {
    const auto methods = TRY(file_.root.tables(kMethods));
    out_.append("{\"methods\":[");
    for (uint64_t i = 0; i < methods.size(); ++i) {
      out_.append(i == 0 ? "\n" : ",\n");
      const Table plan = TRY(methods.table(i));
      const Method read = TRY(read_method(plan));
      TRY_VOID(method(read));
    }
    out_.append("]}\n");
    return {};
  }

 private:
  Result<void> method(const Method& method) {
    Charges charges(budget_);  // released with the names
    const auto operators = TRY(names_of(method.operators, charges, operator_name));
    const auto delegates = TRY(names_of(method.delegates, charges, delegate_name));
    out_.append("{\"name\":");
    append_json_string(out_, method.name);
    TRY_VOID(integers<int32_t>("inputs", method.inputs));
    TRY_VOID(integers<int32_t>("outputs", method.outputs));
    TRY_VOID(integers<int64_t>("non_const_buffer_sizes", method.buffer_sizes));
    out_.append(",\"values\":[");
    for (uint64_t i = 0; i < method.values.size(); ++i) {
      const Member read = TRY(read_member(method.values, i));
      begin_line(i, "kind", value_kind_name(read.number), read.number);
      TRY_VOID(value(read));
      out_.append(1, '}');
      TRY_VOID(flatbuffer::check_size(out_));
    }
    out_.append("],\"chains\":[");
    for (uint64_t i = 0; i < method.chains.size(); ++i) {
      if (i > 0) out_.append(1, ',');
      const Chain read = TRY(read_chain(method.chains, i));
      TRY_VOID(chain(read, operators, delegates));
    }
    out_.append("]}");
    return flatbuffer::check_size(out_);
  }

  Result<void> value(const Member& value) {
    switch (value.number) {
      case kInt:
        return member("value", std::to_string(TRY(value.table.number<int64_t>(0))));
      case kBool:
        return member("value", boolean(TRY(value.table.number<uint8_t>(0))));
      case kDouble:
        return member("value", to_json_line(TRY(value.table.number<double>(0))));
      case kTensor:
        return tensor(TRY(read_value_tensor(value.table)));
      case kText:
        return string(value.table);
      case kIntList:
        return integers<int64_t>("items", TRY(value.table.list(0, sizeof(int64_t))));
      case kDoubleList:
        return list<double>("items", TRY(value.table.list(0, sizeof(double))),
                            [](double number) { return to_json_line(number); });
      case kBoolList:
        return list<uint8_t>("items", TRY(value.table.list(0, sizeof(uint8_t))), boolean);
      case kTensorList:
      case kOptionalTensorList:
        return integers<int32_t>("items", TRY(value.table.list(0, sizeof(int32_t))));
      default:
        return {};
    }
  }

  // A long text is shown by its place in the file.
  Result<void> string(const Table& table) {
    const auto bytes = TRY(table.list(0, 1));
    if (bytes.size() <= kMaxNameLength) return text("value", TRY(table.text(0, kMaxNameLength)));
    return member("value", fmt::format("{{\"offset\":{},\"nbytes\":{}}}", bytes.position(), bytes.size()));
  }

  Result<void> tensor(const ValueTensor& tensor) {
    if (const std::string name = tensor.shown_name(); !name.empty()) TRY_VOID(text("name", name));
    const ScalarType type = scalar_type(tensor.scalar_type);
    TRY_VOID(text("dtype", type.dtype->name));
    const std::string stored =
        type.name.empty() ? std::to_string(tensor.scalar_type) : fmt::format("\"{}\"", type.name);
    TRY_VOID(member("stored_dtype", stored));
    TRY_VOID(integers<int32_t>("shape", tensor.sizes));
    TRY_VOID(integers<uint8_t>("dim_order", tensor.dim_order));
    if (tensor.is_external) out_.append(",\"external\":true");
    if (tensor.has_data()) {
      out_.append(tensor.is_mutable() ? ",\"mutable\":true" : ",\"constant\":true");
      TRY_VOID(member("data_buffer_idx", std::to_string(tensor.buffer)));
    }
    if (tensor.allocation)
      out_.append(fmt::format(",\"allocation\":{{\"memory_id\":{},\"offset\":{}}}", tensor.allocation->memory,
                              tensor.allocation->offset));
    return {};
  }

  Result<void> chain(const Chain& chain, const std::vector<std::string>& operators,
                     const std::vector<std::string>& delegates) {
    out_.append("{\"inputs\":");
    TRY_VOID(flatbuffer::append_integers<int32_t>(out_, chain.inputs));
    TRY_VOID(integers<int32_t>("outputs", chain.outputs));
    out_.append(",\"instructions\":[");
    for (uint64_t i = 0; i < chain.instructions.size(); ++i) {
      const Member read = TRY(read_member(chain.instructions, i));
      begin_line(i, "call", instruction_kind_name(read.number), read.number);
      TRY_VOID(instruction(read, operators, delegates));
      out_.append(1, '}');
      TRY_VOID(flatbuffer::check_size(out_));
    }
    out_.append("]}");
    return {};
  }

  Result<void> instruction(const Member& instruction, const std::vector<std::string>& operators,
                           const std::vector<std::string>& delegates) {
    switch (instruction.number) {
      case kKernelCall:
        TRY_VOID(callee("op", "op_index", operators, instruction.table));
        return integers<int32_t>("args", TRY(instruction.table.list(1, sizeof(int32_t))));
      case kDelegateCall:
        TRY_VOID(callee("delegate", "delegate_index", delegates, instruction.table));
        return integers<int32_t>("args", TRY(instruction.table.list(1, sizeof(int32_t))));
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
      TRY_VOID(text(key, names[static_cast<size_t>(index)]));
    return member(index_key, std::to_string(index));
  }

  void begin_line(uint64_t index, std::string_view key, std::string_view kind, uint8_t number) {
    out_.append(fmt::format("{}{{\"id\":{},\"{}\":", index == 0 ? "\n" : ",\n", index, key));
    out_.append(kind.empty() ? std::to_string(number) : fmt::format("\"{}\"", kind));
  }

  static std::string boolean(uint8_t number) { return number != 0 ? "true" : "false"; }

  // `json`: the JSON of the value.
  Result<void> member(std::string_view key, std::string_view json) {
    out_.append(fmt::format(",\"{}\":{}", key, json));
    return {};
  }

  Result<void> text(std::string_view key, std::string_view text) {
    out_.append(fmt::format(",\"{}\":", key));
    append_json_string(out_, text);
    return {};
  }

  Result<void> number(std::string_view key, const Table& table, flatbuffer::Slot slot) {
    return member(key, std::to_string(TRY(table.number<int32_t>(slot))));
  }

  template <class Number, class Text>
  Result<void> list(std::string_view key, const flatbuffer::List& numbers, const Text& text) {
    out_.append(fmt::format(",\"{}\":", key));
    return flatbuffer::append_list<Number>(out_, numbers, text);
  }

  template <class Number>
  Result<void> integers(std::string_view key, const flatbuffer::List& numbers) {
    out_.append(fmt::format(",\"{}\":", key));
    return flatbuffer::append_integers<Number>(out_, numbers);
  }

  const File& file_;
  Budget& budget_;
  TextSink& out_;
};

}  // namespace

Result<void> check_methods(const File& file) { return MethodCheck(file).run(); }

Result<std::string> graph_json(const File& file, Budget& budget) {
  return rendered(budget, [&](TextSink& out) { return GraphWriter(file, budget, out).run(); });
}

}  // namespace weightfs::executorch
