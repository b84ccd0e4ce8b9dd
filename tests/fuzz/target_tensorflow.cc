// Targets of TensorFlow's formats: checkpoints, graphs, and SavedModels.
#include <algorithm>
#include <array>

#include "base/digest.h"
#include "formats/tensorflow/checkpoint/table.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/targets.h"

namespace weightfs::test {
namespace {

// Values of old checkpoints, filled constants and texts are computed when they are read, so some tensors are read, too.
void run(const Container& container, const char* format) {
  constexpr size_t kMaxRead = 4;
  read_checked(container, format);
  const auto model = read_model(container, format_named(format));
  if (!model) return;
  std::array<std::byte, 4096> buffer;
  for (size_t i = 0; i < std::min(kMaxRead, model->tensors.size()); ++i) {
    const Slice source = model->tensors[i].source;
    for (const uint64_t offset : {uint64_t{0}, source.size() - std::min<uint64_t>(source.size(), 100)})
      static_cast<void>(source.read(offset, buffer));
  }
  for (const auto& [place, texts] : model->per_tensor->strings) static_cast<void>(texts.get());
  for (const Document& document : model->documents) static_cast<void>(document.source.get());
}

void run_checkpoint(std::string_view input) { run(parse_input(input).named("m.index"), "tensorflow-checkpoint"); }
void run_graph(std::string_view input) { run(parse_input(input).named("graph.pb"), "tensorflow-graph"); }
void run_saved_model(std::string_view input) {
  run(parse_input(input).named("saved_model.pb"), "tensorflow-savedmodel");
}

// Corrects the checksum behind a block.
void correct(std::string& input, const tensorflow::BlockHandle& block) {
  if (block.offset > input.size() || input.size() - block.offset < 5 || block.size > input.size() - block.offset - 5)
    return;
  const auto bytes = std::as_bytes(std::span(input)).subspan(block.offset, block.size + 1);
  const uint32_t crc = crc32c(bytes);
  const uint32_t masked = ((crc >> 15) | (crc << 17)) + 0xa282ead8U;
  for (size_t i = 0; i < 4; ++i) input[block.offset + block.size + 1 + i] = static_cast<char>(masked >> 8 * i & 0xFF);
}

// Corrects the checksums of a table: first of its index, which has the places of the other blocks.
void repair_table(std::string& input) {
  constexpr size_t kFooter = 48;
  if (input.size() < kFooter) return;
  const SourcePtr footer = in_memory(input.substr(input.size() - kFooter));
  protobuf::Scanner scanner(*footer, nullptr);
  std::array<uint64_t, 4> numbers{};
  uint64_t at = 0;
  for (uint64_t& number : numbers) {
    const auto read = scanner.number(at, kFooter, protobuf::WireType::varint);
    if (!read) return;
    number = *read;
  }
  correct(input, {numbers[2], numbers[3]});
  const auto table = tensorflow::Table::open({.name = "m.index", .bytes = in_memory(input)});
  if (!table) return;
  for (const auto& block : table->blocks()) correct(input, block.handle);
}

// A message is read again for each level around it that is read in passes. A tensor whose last value is repeated is
// gathered in blocks of up to 16 MiB, of which two are kept.
constexpr Limits kGraphLimits = {
    .memory = 40'000'000, .memory_per_byte = 500, .read = 200'000, .read_per_byte = 600, .time_per_byte = 60'000};
// A block of Snappy is up to 22 times as large as it is stored.
constexpr Limits kTableLimits = {.memory = 500'000, .memory_per_byte = 1'000, .read = 200'000, .read_per_byte = 300};

}  // namespace

const Target kTfCheckpointTarget = {.name = "tf_checkpoint",
                                    .run = run_checkpoint,
                                    .limits = kTableLimits,
                                    .mutate = mutate_numbers,
                                    .repair = repair_table};
const Target kTfGraphTarget = {.name = "tf_graph", .run = run_graph, .limits = kGraphLimits, .mutate = mutate_protobuf};
const Target kSavedModelTarget = {
    .name = "saved_model", .run = run_saved_model, .limits = kGraphLimits, .mutate = mutate_protobuf};

}  // namespace weightfs::test
