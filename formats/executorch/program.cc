#include "formats/executorch/program.h"

#include <fmt/core.h>

#include <set>
#include <tuple>

#include "base/text.h"

namespace weightfs::executorch {
namespace {

using flatbuffer::Table;

// The member of the union KernelTypes that is a Tensor.
constexpr uint8_t kTensor = 5;

// The value of TensorDataLocation for data in another file.
constexpr uint8_t kExternal = 1;

// The value of DataLocation for data in a segment.
constexpr uint8_t kInSegment = 1;

// The memory of an entry in ProgramReader::seen_.
constexpr uint64_t kSeen = 100;

class ProgramReader {
 public:
  ProgramReader(Model& model, File& file, TensorAdder& adder, Budget& budget)
      : model_(model), file_(file), adder_(adder), budget_(budget) {}

  Result<void> run() {
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
    return {};
  }

 private:
  Result<Map> method(const Table& plan) {
    TRY_VOID(budget_.charge(Cost::value, 20));
    std::string name = TRY(text(plan, 0));
    const auto values = TRY(plan.tables(2));
    for (uint64_t i = 0; i < values.size(); ++i) {
      const Table value = TRY(values.table(i));
      TRY_VOID(add_value(value));
    }
    const auto inputs = TRY(plan.list(3, sizeof(int32_t)));
    const auto outputs = TRY(plan.list(4, sizeof(int32_t)));
    Value operators = TRY(operators_of(plan));
    List delegates = TRY(delegates_of(plan));
    Map line;
    line.append("name", std::move(name));
    line.append("inputs", inputs.size());
    line.append("outputs", outputs.size());
    line.append("values", values.size());
    line.append("operators", std::move(operators));
    line.append("delegates", std::move(delegates));
    return line;
  }

  // A value of a method. Only tensors with data in the file are shown.
  Result<void> add_value(const Table& value) {
    const auto kind = TRY(value.number<uint8_t>(0));
    if (kind != kTensor) return {};
    const Table tensor = TRY(value.table(1));
    const Table extra = TRY(tensor.table(9));
    const auto location = TRY(extra.number<int8_t>(2));
    if (location == kExternal) ++external_;
    const auto index = TRY(tensor.number<uint32_t>(5));
    if (index == 0 || location == kExternal) return {};
    std::string name = TRY(extra.text(1, kMaxNameLength));
    const auto is_mutable = TRY(tensor.has(6));
    const auto segments = TRY(extra.number<uint64_t>(0));
    // Methods share constants.
    TRY_VOID(budget_.charge(Cost::kept, kSeen + name.size()));
    if (!seen_.emplace(is_mutable, is_mutable ? segments : 0, index, name).second) return {};
    const auto bytes = is_mutable ? initial_value(segments, index) : constant(index);
    if (!bytes && !is_about_the_bytes(bytes.error())) return tl::unexpected(bytes.error());
    const Layout layout = TRY(read_layout(tensor, 0, 2, 3));
    if (name.empty()) name = fmt::format("{}_{}", is_mutable ? "mutable" : "constant", index);
    return adder_.tensor(std::move(name), layout, bytes);
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
  Result<Value> operators_of(const Table& plan) {
    const auto operators = TRY(plan.tables(6));
    if (operators.size() > kMaxInlineList) return Value(fmt::format("{} operators", operators.size()));
    List out;
    for (uint64_t i = 0; i < operators.size(); ++i) {
      const Table table = TRY(operators.table(i));
      const std::string name = TRY(text(table, 0));
      const std::string overload = TRY(text(table, 1));
      out.emplace_back(overload.empty() ? name : fmt::format("{}.{}", name, overload));
    }
    return Value(std::move(out));
  }

  // The names of backends; their blobs become parts.
  Result<List> delegates_of(const Table& plan) {
    const auto delegates = TRY(plan.tables(7));
    List out;
    for (uint64_t i = 0; i < delegates.size(); ++i) {
      const Table delegate = TRY(delegates.table(i));
      std::string backend = TRY(text(delegate, 0));
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

  // A text that stays in memory.
  Result<std::string> text(const Table& table, flatbuffer::Slot slot) {
    std::string out = TRY(table.text(slot, kMaxNameLength));
    TRY_VOID(budget_.charge(Cost::value));
    TRY_VOID(budget_.charge(Cost::kept, out.size()));
    return out;
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
  uint64_t external_ = 0;                                             // tensors with data in another file
  uint64_t blobs_ = 0;
};

}  // namespace

Result<void> add_program(Model& model, File& file, TensorAdder& adder, Budget& budget) {
  return ProgramReader(model, file, adder, budget).run();
}

}  // namespace weightfs::executorch
