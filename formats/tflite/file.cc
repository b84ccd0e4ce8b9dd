#include "formats/tflite/file.h"

#include <fmt/core.h>

#include "base/text.h"
#include "formats/common/limits.h"
#include "formats/tflite/types.h"

namespace weightfs::tflite {

using flatbuffer::Table;

namespace {

// A union has two slots: the number of its member, and the table.
Result<Options> read_options(const Table& table, flatbuffer::Slot slot) {
  Options options;
  options.number = TRY(table.number<uint8_t>(slot));
  if (options.number != 0) options.table = TRY(table.table(static_cast<flatbuffer::Slot>(slot + 1)));
  return options;
}

}  // namespace

Result<File> open_file(const SourcePtr& source, Budget& budget) {
  File file{.source = source,
            .bytes = std::make_unique<flatbuffer::Buffer>(*source, budget),
            .model = {},
            .subgraphs = {},
            .buffers = {},
            .external_groups = {},
            .external_buffers = {}};
  file.model = TRY(Table::root(*file.bytes));
  file.subgraphs = TRY(file.model.tables(2));
  file.buffers = TRY(file.model.tables(4));
  file.external_groups = TRY(file.model.tables(8));
  file.external_buffers = TRY(file.model.tables(9));
  return file;
}

Result<Graph> read_graph(const File& file, uint64_t index) {
  const Table table = TRY(file.subgraphs.table(index));
  Graph graph;
  graph.tensors = TRY(table.tables(0));
  graph.inputs = TRY(table.list(1, sizeof(int32_t)));
  graph.outputs = TRY(table.list(2, sizeof(int32_t)));
  graph.operators = TRY(table.tables(3));
  graph.name = TRY(table.text(4, kMaxNameLength));
  return graph;
}

Result<Entry> read_entry(const flatbuffer::List& tensors, uint64_t index) {
  const Table table = TRY(tensors.table(index));
  Entry entry;
  entry.shape = TRY(table.list(0, sizeof(int32_t)));
  entry.type = TRY(table.number<int8_t>(1));
  entry.buffer = TRY(table.number<uint32_t>(2));
  entry.name = TRY(table.text(3, kMaxNameLength));
  const Table quantization = TRY(table.table(4));
  entry.quantization.scale = TRY(quantization.list(2, sizeof(float)));
  entry.quantization.zero_point = TRY(quantization.list(3, sizeof(int64_t)));
  entry.quantization.dimension = TRY(quantization.number<int32_t>(6));
  const auto is_variable = TRY(table.number<uint8_t>(5));
  entry.is_variable = is_variable != 0;
  entry.is_sparse = TRY(table.has(6));
  entry.signature = TRY(table.list(7, sizeof(int32_t)));
  entry.external = TRY(table.number<uint32_t>(10));
  return entry;
}

Result<Call> read_call(const flatbuffer::List& operators, uint64_t index) {
  const Table table = TRY(operators.table(index));
  Call call;
  call.code = TRY(table.number<uint32_t>(0));
  call.inputs = TRY(table.list(1, sizeof(int32_t)));
  call.outputs = TRY(table.list(2, sizeof(int32_t)));
  call.options = TRY(read_options(table, 3));
  call.custom_options = TRY(table.list(5, 1));
  call.large_custom_offset = TRY(table.number<uint64_t>(9));
  call.large_custom_size = TRY(table.number<uint64_t>(10));
  call.options_2 = TRY(read_options(table, 11));
  return call;
}

Result<std::optional<Slice>> bytes_of_buffer(const File& file, uint32_t index) {
  if (index == 0 && file.buffers.size() == 0) return std::nullopt;
  if (index >= file.buffers.size())
    return failure(Code::corrupt, fmt::format("has buffer {}, and the file has {}", index, file.buffers.size()));
  const Table buffer = TRY(file.buffers.table(index));
  // Models over 2 GiB have the bytes after the FlatBuffer. Converters write the offset 1 before they know it.
  const auto offset = TRY(buffer.number<uint64_t>(1));
  const flatbuffer::List data = offset > 1 ? flatbuffer::List() : TRY(buffer.list(0, 1));
  const uint64_t size = offset > 1 ? TRY(buffer.number<uint64_t>(2)) : data.size();
  if (size == 0) return std::nullopt;
  return TRY(slice(file.source, offset > 1 ? offset : data.position(), size));
}

Result<void> check_last_buffer(const File& file) {
  TRY_VOID(file.buffers.charge());
  uint64_t last = 0, furthest = 0;
  for (uint64_t i = 0; i < file.buffers.size(); ++i) {
    const uint64_t at = file.buffers.position() + sizeof(uint32_t) * i + TRY(file.buffers.number<uint32_t>(i));
    if (at < furthest) continue;
    furthest = at;
    last = i;
  }
  if (file.buffers.size() == 0) return {};
  const Table buffer = TRY(file.buffers.table(last));
  return buffer.list(0, 1).map([](const flatbuffer::List&) {});
}

Result<std::string> operator_code_name(const Table& operator_code) {
  // Files of before 2020 have only the first, which ends at 127.
  const int32_t old_number = TRY(operator_code.number<int8_t>(0));
  const auto new_number = TRY(operator_code.number<int32_t>(3));
  const int32_t number = std::max(old_number, new_number);
  if (number == kCustom) {
    const std::string name = TRY(operator_code.text(1, kMaxNameLength));
    return fmt::format("CUSTOM:{}", name);
  }
  const std::string_view name = operator_name(number);
  return name.empty() ? fmt::format("unknown({})", number) : std::string(name);
}

Result<std::vector<std::string>> operator_code_names(const File& file, Charges& charges) {
  std::vector<std::string> out;
  const flatbuffer::List codes = TRY(file.model.tables(1));
  for (uint64_t i = 0; i < codes.size(); ++i) {
    const Table code = TRY(codes.table(i));
    std::string text = TRY(operator_code_name(code));
    TRY_VOID(charges.charge(Cost::value));
    TRY_VOID(charges.charge(Cost::kept, text.size()));
    out.push_back(std::move(text));
  }
  return out;
}

}  // namespace weightfs::tflite
