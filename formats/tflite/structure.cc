#include "formats/tflite/structure.h"

#include <fmt/core.h>

#include "formats/tflite/options.h"

namespace weightfs::tflite {
namespace {

// The smallest size of a table: the offset to it, and its own to its vtable.
constexpr uint64_t kTableSize = 8;

class StructureCheck {
 public:
  StructureCheck(const File& file, const std::vector<std::string>& operators)
      : file_(file), operators_(operators), left_(file.source->size() + kSharedSize) {}

  Result<void> run() {
    for (uint64_t i = 0; i < file_.subgraphs.size(); ++i) TRY_VOID(graph(i));
    return {};
  }

 private:
  Result<void> graph(uint64_t index) {
    const Graph graph = TRY(read_graph(file_, index));
    TRY_VOID(count(kTableSize + graph.name.size() + sizeof(int32_t) * (graph.inputs.size() + graph.outputs.size())));
    tensors_ += graph.tensors.size();
    if (tensors_ > kMaxTensors) return failure(Code::unsupported, fmt::format("more than {} tensors", kMaxTensors));
    for (uint64_t id = 0; id < graph.tensors.size(); ++id) TRY_VOID(tensor(graph.tensors, id));
    for (uint64_t i = 0; i < graph.operators.size(); ++i) TRY_VOID(call(graph.operators, i));
    return {};
  }

  Result<void> tensor(const flatbuffer::List& tensors, uint64_t id) {
    const Entry entry = TRY(read_entry(tensors, id));
    const uint64_t numbers = entry.shape.size() + entry.signature.size() + entry.quantization.scale.size();
    return count(kTableSize + entry.name.size() + sizeof(int32_t) * numbers +
                 sizeof(int64_t) * entry.quantization.zero_point.size());
  }

  Result<void> call(const flatbuffer::List& operators, uint64_t index) {
    const Call call = TRY(read_call(operators, index));
    const uint64_t name = call.code < operators_.size() ? operators_[call.code].size() : 0;
    const uint64_t options = TRY(options_size(call));
    return count(kTableSize + name + sizeof(int32_t) * (call.inputs.size() + call.outputs.size()) + options);
  }

  Result<void> count(uint64_t size) {
    if (size > left_)
      return failure(Code::unsupported,
                     fmt::format("tables, lists and names of more than {} bytes, counted at each use",
                                 file_.source->size() + kSharedSize));
    left_ -= size;
    return {};
  }

  const File& file_;
  const std::vector<std::string>& operators_;
  uint64_t left_;
  uint64_t tensors_ = 0;
};

}  // namespace

Result<void> check_structure(const File& file, const std::vector<std::string>& operators) {
  return StructureCheck(file, operators).run();
}

}  // namespace weightfs::tflite
