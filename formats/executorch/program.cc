#include "formats/executorch/program.h"

#include <fmt/core.h>

#include <set>
#include <tuple>

#include "base/text.h"
#include "formats/code/operators.h"
#include "formats/common/limits.h"
#include "formats/executorch/graph.h"
#include "formats/executorch/method.h"

namespace weightfs::executorch {
namespace {

using flatbuffer::Table;

// The value of DataLocation for data in a segment.
constexpr uint8_t kInSegment = 1;

// The memory of an entry in ProgramReader::seen_.
constexpr uint64_t kSeen = 100;

class ProgramReader {
 public:
  ProgramReader(Model& model, File& file, TensorAdder& adder, Budget& budget)
      : model_(model), file_(file), adder_(adder), budget_(budget) {}

  Result<void> run() {
    TRY_VOID(check_methods(file_));
    const Table& program = file_.root;
    const auto plans = TRY(program.tables(1));
    buffers_ = TRY(program.tables(2));
    delegate_data_ = TRY(program.tables(3));
    file_.segments = TRY(program.tables(4));
    constants_ = TRY(program.table(5));
    mutable_ = TRY(program.tables(6));
    List methods;
    for (uint64_t i = 0; i < plans.size(); ++i) {
      const Table plan = TRY(plans.table(i));
      Map line = TRY(method(plan));
      methods.push_back(std::move(line));
    }
    const auto named = TRY(program.tables(7));
    TRY_VOID(adder_.named_data(named));
    model_.metadata.append("methods", std::move(methods));
    model_.metadata.append("segments", file_.segments.size());
    model_.metadata.append("external_tensors", external_);
    std::move(code_).move_to(model_.common);
    return {};
  }

 private:
  Result<Map> method(const Table& plan) {
    TRY_VOID(budget_.charge(Cost::value, 20));
    Method read = TRY(read_method(plan));
    TRY_VOID(keep(read.name));
    for (uint64_t i = 0; i < read.values.size(); ++i) {
      const Member value = TRY(read_member(read.values, i));
      TRY_VOID(add_value(value));
    }
    Value operators = TRY(operators_of(read));
    List delegates = TRY(delegates_of(read));
    Map line;
    line.append("name", std::move(read.name));
    line.append("inputs", read.inputs.size());
    line.append("outputs", read.outputs.size());
    line.append("values", read.values.size());
    line.append("operators", std::move(operators));
    line.append("delegates", std::move(delegates));
    return line;
  }

  // A value of a method. Only tensors with data in the file are shown.
  Result<void> add_value(const Member& value) {
    if (value.number != kTensor) return {};
    const ValueTensor tensor = TRY(read_value_tensor(value.table));
    if (tensor.is_external) ++external_;
    if (!tensor.has_data()) return {};
    const bool is_mutable = tensor.is_mutable();
    // Methods share constants.
    TRY_VOID(budget_.charge(Cost::kept, kSeen + tensor.name.size()));
    if (!seen_.emplace(is_mutable, is_mutable ? tensor.mutable_segment : 0, tensor.buffer, tensor.name).second)
      return {};
    const auto bytes = is_mutable ? initial_value(tensor.mutable_segment, tensor.buffer) : constant(tensor.buffer);
    if (!bytes && !is_about_the_bytes(bytes.error())) return tl::unexpected(bytes.error());
    return adder_.tensor(tensor.shown_name(), {tensor.scalar_type, tensor.sizes, tensor.dim_order}, bytes);
  }

  // Inline in files of before 2024, later in a segment.
  Result<Slice> constant(uint32_t index) {
    if (buffers_.size() == 0) return in_segment(constants_, index);
    if (index >= buffers_.size())
      return failure(Code::corrupt, fmt::format("has buffer {}, and the file has {}", index, buffers_.size()));
    const Table buffer = TRY(buffers_.table(index));
    const auto bytes = TRY(buffer.list(0, 1));
    return slice(file_.source, bytes.position(), bytes.size());
  }

  Result<Slice> initial_value(uint64_t segments, uint32_t index) {
    if (segments >= mutable_.size())
      return failure(Code::corrupt,
                     fmt::format("is in mutable segment {}, and the file has {}", segments, mutable_.size()));
    const Table offsets = TRY(mutable_.table(segments));
    return in_segment(offsets, index);
  }

  // From the offset with this index in SubsegmentOffsets to the end of the segment.
  Result<Slice> in_segment(const Table& subsegments, uint32_t index) {
    const auto number = TRY(subsegments.number<uint32_t>(0));
    const auto offsets = TRY(subsegments.list(1, sizeof(uint64_t)));
    if (index >= offsets.size())
      return failure(Code::corrupt, fmt::format("has offset {}, and its segment has {}", index, offsets.size()));
    const auto offset = TRY(offsets.number<uint64_t>(index));
    const Slice whole = TRY(segment(file_, number));
    if (offset > whole.size())
      return failure(Code::corrupt, fmt::format("is at {} of a segment of {} bytes", offset, whole.size()));
    return slice(file_.source, whole.offset() + offset, whole.size() - offset);
  }

  // ["aten::add.out"]
  Result<Value> operators_of(const Method& method) {
    const bool is_listed = method.operators.size() <= kMaxInlineList;
    List out;
    for (uint64_t i = 0; i < method.operators.size(); ++i) {
      const Table table = TRY(method.operators.table(i));
      std::string name = TRY(operator_name(table));
      const size_t space = name.find("::");
      if (space != name.npos && !code::is_namespace_of_executorch(name.substr(0, space)))
        code::add_custom_operator(name, code_);
      if (!is_listed) continue;
      TRY_VOID(keep(name));
      out.emplace_back(std::move(name));
    }
    if (!is_listed) return Value(fmt::format("{} operators", method.operators.size()));
    return Value(std::move(out));
  }

  // The names of backends; their blobs become parts.
  Result<List> delegates_of(const Method& method) {
    List out;
    for (uint64_t i = 0; i < method.delegates.size(); ++i) {
      const Table delegate = TRY(method.delegates.table(i));
      std::string backend = TRY(delegate.text(0, kMaxNameLength));
      TRY_VOID(keep(backend));
      const Table data = TRY(delegate.table(1));
      const auto location = TRY(data.number<int8_t>(0));
      const auto index = TRY(data.number<uint32_t>(1));
      const auto bytes = location == kInSegment ? segment(file_, index) : inline_blob(index);
      TRY_VOID(adder_.blob(fmt::format("delegates/{}.{}", blobs_++, backend), bytes));
      out.emplace_back(std::move(backend));
    }
    return out;
  }

  Result<Slice> inline_blob(uint32_t index) {
    if (index >= delegate_data_.size())
      return failure(Code::corrupt, fmt::format("has blob {}, and the file has {}", index, delegate_data_.size()));
    const Table blob = TRY(delegate_data_.table(index));
    const auto bytes = TRY(blob.list(0, 1));
    return slice(file_.source, bytes.position(), bytes.size());
  }

  // Charges for a text that stays in memory.
  Result<void> keep(const std::string& text) {
    TRY_VOID(budget_.charge(Cost::value));
    return budget_.charge(Cost::kept, text.size());
  }

  Model& model_;
  File& file_;
  TensorAdder& adder_;
  Budget& budget_;
  flatbuffer::List buffers_;        // of constants, in files without a segment of them
  flatbuffer::List delegate_data_;  // of blobs
  Table constants_;                 // SubsegmentOffsets of constants
  flatbuffer::List mutable_;        // of SubsegmentOffsets
  std::set<std::tuple<bool, uint64_t, uint32_t, std::string>> seen_;  // tensors that were added
  CodeList code_;
  uint64_t external_ = 0;  // tensors with data in another file
  uint64_t blobs_ = 0;
};

}  // namespace

Result<void> add_program(Model& model, File& file, TensorAdder& adder, Budget& budget) {
  return ProgramReader(model, file, adder, budget).run();
}

}  // namespace weightfs::executorch
