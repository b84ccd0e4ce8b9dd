#include "formats/tflite/graph.h"

#include <fmt/core.h>

#include "base/values/rendering.h"
#include "base/values/value.h"
#include "formats/flatbuffer/json.h"
#include "formats/tflite/options.h"
#include "formats/tflite/quantization.h"
#include "formats/tflite/types.h"

namespace weightfs::tflite {
namespace {

// Writes line after line, so that memory holds the text and one line.
class Writer {
 public:
  Writer(const File& file, TextSink& out) : file_(file), out_(out) {}

  Result<void> graphs(const std::vector<std::string>& operators) {
    out_.append("{\"subgraphs\":[");
    for (uint64_t i = 0; i < file_.subgraphs.size(); ++i) {
      out_.append(i == 0 ? "\n" : ",\n");
      const Graph read = TRY(read_graph(file_, i));
      TRY_VOID(graph(read, operators));
    }
    out_.append("]}\n");
    return {};
  }

  Result<void> quantization() {
    out_.append("[");
    bool is_first = true;
    const auto line = [&](uint64_t graph, uint64_t id, const Entry& entry) -> Result<void> {
      begin_line(std::exchange(is_first, false), id, entry.name);
      out_.append(fmt::format(",\"subgraph\":{}", graph));
      TRY_VOID(parameters(entry.quantization));
      out_.append(1, '}');
      return flatbuffer::check_size(out_);
    };
    TRY_VOID(for_each_quantized_constant(file_, line));
    out_.append("]\n");
    return {};
  }

 private:
  Result<void> graph(const Graph& graph, const std::vector<std::string>& operators) {
    out_.append("{\"name\":");
    append_json_string(out_, graph.name);
    TRY_VOID(ids("inputs", graph.inputs));
    TRY_VOID(ids("outputs", graph.outputs));
    out_.append(",\"tensors\":[");
    for (uint64_t id = 0; id < graph.tensors.size(); ++id) {
      const Entry entry = TRY(read_entry(graph.tensors, id));
      TRY_VOID(tensor(id, entry));
    }
    out_.append("],\"operators\":[");
    for (uint64_t i = 0; i < graph.operators.size(); ++i) {
      const Call read = TRY(read_call(graph.operators, i));
      TRY_VOID(call(i, read, operators));
    }
    out_.append("]}");
    return flatbuffer::check_size(out_);
  }

  Result<void> tensor(uint64_t id, const Entry& entry) {
    begin_line(id == 0, id, entry.name);
    out_.append(",\"dtype\":");
    append_json_string(out_, tensor_type(entry.type).dtype->name);
    TRY_VOID(ids("shape", entry.shape));
    if (entry.signature.size() > 0) TRY_VOID(ids("shape_signature", entry.signature));
    out_.append(fmt::format(",\"buffer\":{}", entry.buffer));
    if (entry.external != 0) out_.append(fmt::format(",\"external_buffer\":{}", entry.external));
    if (entry.is_sparse) out_.append(",\"sparse\":true");
    if (entry.is_variable) out_.append(",\"variable\":true");
    place(entry);
    if (entry.quantization.scale.size() > 0) TRY_VOID(parameters(entry.quantization));
    out_.append(1, '}');
    return flatbuffer::check_size(out_);
  }

  void place(const Entry& entry) {
    const auto bytes = bytes_of_buffer(file_, entry.buffer);
    if (!bytes) return out_.append(fmt::format(",\"problem\":{}", to_json_line(bytes.error().message)));
    if (*bytes) out_.append(fmt::format(",\"offset\":{},\"nbytes\":{}", (*bytes)->offset(), (*bytes)->size()));
  }

  Result<void> call(uint64_t index, const Call& call, const std::vector<std::string>& operators) {
    out_.append(index == 0 ? "\n{\"op\":" : ",\n{\"op\":");
    const bool is_known = call.code < operators.size();
    append_json_string(out_, is_known ? operators[call.code] : fmt::format("operator code {}", call.code));
    TRY_VOID(ids("inputs", call.inputs));
    TRY_VOID(ids("outputs", call.outputs));
    TRY_VOID(append_options(out_, file_, call));
    out_.append(1, '}');
    return flatbuffer::check_size(out_);
  }

  void begin_line(bool is_first, uint64_t id, const std::string& name) {
    out_.append(fmt::format("{}{{\"id\":{},\"name\":", is_first ? "\n" : ",\n", id));
    append_json_string(out_, name);
  }

  Result<void> parameters(const Quantization& found) {
    out_.append(",\"scale\":");
    TRY_VOID(flatbuffer::append_list<float>(out_, found.scale,
                                            [](float number) { return to_json_line(shortest_decimal(number)); }));
    out_.append(",\"zero_point\":");
    TRY_VOID(flatbuffer::append_integers<int64_t>(out_, found.zero_point));
    out_.append(fmt::format(",\"quantized_dimension\":{}", found.dimension));
    return {};
  }

  Result<void> ids(std::string_view key, const flatbuffer::List& numbers) {
    out_.append(fmt::format(",\"{}\":", key));
    return flatbuffer::append_integers<int32_t>(out_, numbers);
  }

  const File& file_;
  TextSink& out_;
};

}  // namespace

Result<std::string> graph_json(const File& file, Budget& budget) {
  Charges charges(budget);  // released with the texts
  const auto operators = TRY(operator_code_names(file, charges));
  return rendered(budget, [&](TextSink& out) { return Writer(file, out).graphs(operators); });
}

Result<std::string> quantization_json(const File& file, Budget& budget) {
  return rendered(budget, [&](TextSink& out) { return Writer(file, out).quantization(); });
}

}  // namespace weightfs::tflite
