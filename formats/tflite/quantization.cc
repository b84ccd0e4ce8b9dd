#include "formats/tflite/quantization.h"

namespace weightfs::tflite {

Result<void> for_each_quantized_constant(const File& file, const Visit& visit) {
  for (uint64_t i = 0; i < file.subgraphs.size(); ++i) {
    const Graph graph = TRY(read_graph(file, i));
    for (uint64_t id = 0; id < graph.tensors.size(); ++id) {
      const Entry entry = TRY(read_entry(graph.tensors, id));
      if (entry.quantization.scale.size() == 0) continue;
      const auto bytes = bytes_of_buffer(file, entry.buffer);
      if (entry.external != 0 || (bytes && *bytes)) TRY_VOID(visit(i, id, entry));
    }
  }
  return {};
}

Result<QuantizationSize> quantization_size(const File& file) {
  QuantizationSize size;
  const auto count = [&](uint64_t, uint64_t, const Entry& entry) -> Result<void> {
    ++size.constants;
    size.numbers += entry.quantization.scale.size() + entry.quantization.zero_point.size();
    return {};
  };
  TRY_VOID(for_each_quantized_constant(file, count));
  return size;
}

Result<weightfs::List> quantization_list(const File& file) {
  List out;
  const auto add = [&](uint64_t graph, uint64_t id, const Entry& entry) -> Result<void> {
    const auto scale = TRY(entry.quantization.scale.numbers<float>(kMaxInlineList));
    const auto zero_point = TRY(entry.quantization.zero_point.numbers<int64_t>(kMaxInlineList));
    List scales;
    for (const float number : scale) scales.push_back(shortest_decimal(number));
    Map line;
    line.append("name", entry.name);
    line.append("subgraph", graph);
    line.append("id", id);
    line.append("scale", std::move(scales));
    line.append("zero_point", List(zero_point.begin(), zero_point.end()));
    line.append("quantized_dimension", entry.quantization.dimension);
    out.push_back(std::move(line));
    return {};
  };
  TRY_VOID(for_each_quantized_constant(file, add));
  return out;
}

}  // namespace weightfs::tflite
