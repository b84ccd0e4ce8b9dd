#include "formats/tflite/graph.h"

#include <fmt/core.h>

#include "base/values/value.h"
#include "formats/flatbuffer/json.h"
#include "formats/tflite/options.h"
#include "formats/tflite/quantization.h"
#include "formats/tflite/types.h"

namespace weightfs::tflite {
namespace {

using flatbuffer::append_integers;

class Writer {
 public:
  Writer(const File& file, GraphWriter& out) : file_(file), out_(out) {}

  Result<void> graphs(const std::vector<std::string>& operators) {
    out_.begin('{');
    out_.begin("subgraphs", '[');
    for (uint64_t i = 0; i < file_.subgraphs.size(); ++i) {
      const Graph read = TRY(read_graph(file_, i));
      TRY_VOID(graph(read, operators));
    }
    return out_.end("]}");
  }

  Result<void> quantization() {
    out_.begin('[');
    const auto line = [&](uint64_t graph, uint64_t id, const Entry& entry) -> Result<void> {
      TRY_VOID(begin_node(id, entry.name));
      TRY_VOID(out_.attribute("subgraph", std::to_string(graph)));
      TRY_VOID(parameters(entry.quantization));
      return out_.end("}");
    };
    TRY_VOID(for_each_quantized_constant(file_, line));
    return out_.end("]");
  }

 private:
  Result<void> graph(const Graph& graph, const std::vector<std::string>& operators) {
    out_.begin_node();
    TRY_VOID(out_.text_attribute("name", graph.name));
    TRY_VOID(append_integers<int32_t>(out_, "inputs", graph.inputs));
    TRY_VOID(append_integers<int32_t>(out_, "outputs", graph.outputs));
    out_.begin("tensors", '[');
    for (uint64_t id = 0; id < graph.tensors.size(); ++id) {
      const Entry entry = TRY(read_entry(graph.tensors, id));
      TRY_VOID(tensor(id, entry));
    }
    TRY_VOID(out_.end("]"));
    out_.begin("operators", '[');
    for (uint64_t i = 0; i < graph.operators.size(); ++i) {
      const Call read = TRY(read_call(graph.operators, i));
      TRY_VOID(call(read, operators));
    }
    return out_.end("]}");
  }

  Result<void> tensor(uint64_t id, const Entry& entry) {
    TRY_VOID(begin_node(id, entry.name));
    TRY_VOID(out_.text_attribute("dtype", dtype_of(kTensorTypes.find(entry.type))->name));
    TRY_VOID(append_integers<int32_t>(out_, "shape", entry.shape));
    if (entry.signature.size() > 0) TRY_VOID(append_integers<int32_t>(out_, "shape_signature", entry.signature));
    TRY_VOID(out_.attribute("buffer", std::to_string(entry.buffer)));
    if (entry.external != 0) TRY_VOID(out_.attribute("external_buffer", std::to_string(entry.external)));
    if (entry.is_sparse) TRY_VOID(out_.attribute("sparse", "true"));
    if (entry.is_variable) TRY_VOID(out_.attribute("variable", "true"));
    TRY_VOID(place(entry));
    if (entry.quantization.scale.size() > 0) TRY_VOID(parameters(entry.quantization));
    return out_.end("}");
  }

  Result<void> place(const Entry& entry) {
    const auto bytes = bytes_of_buffer(file_, entry.buffer);
    if (!bytes) return out_.attribute("problem", to_json_line(bytes.error().message));
    if (!*bytes) return {};
    TRY_VOID(out_.attribute("offset", std::to_string((*bytes)->offset())));
    return out_.attribute("nbytes", std::to_string((*bytes)->size()));
  }

  Result<void> call(const Call& call, const std::vector<std::string>& operators) {
    out_.begin_node();
    const bool is_known = call.code < operators.size();
    TRY_VOID(out_.text_attribute("op", is_known ? operators[call.code] : fmt::format("operator code {}", call.code)));
    TRY_VOID(append_integers<int32_t>(out_, "inputs", call.inputs));
    TRY_VOID(append_integers<int32_t>(out_, "outputs", call.outputs));
    TRY_VOID(append_options(out_, file_, call));
    return out_.end("}");
  }

  Result<void> begin_node(uint64_t id, const std::string& name) {
    out_.begin_node();
    TRY_VOID(out_.attribute("id", std::to_string(id)));
    return out_.text_attribute("name", name);
  }

  Result<void> parameters(const Quantization& found) {
    const auto decimal = [](float number) { return to_json_line(shortest_decimal(number)); };
    TRY_VOID(flatbuffer::append_list<float>(out_, "scale", found.scale, decimal));
    TRY_VOID(append_integers<int64_t>(out_, "zero_point", found.zero_point));
    return out_.attribute("quantized_dimension", std::to_string(found.dimension));
  }

  const File& file_;
  GraphWriter& out_;
};

}  // namespace

Result<std::string> graph_json(const File& file, Budget& budget) {
  Charges charges(budget);  // released with the texts
  const auto operators = TRY(operator_code_names(file, charges));
  return graph_document(budget, [&](GraphWriter& out) { return Writer(file, out).graphs(operators); });
}

Result<std::string> quantization_json(const File& file, Budget& budget) {
  return graph_document(budget, [&](GraphWriter& out) { return Writer(file, out).quantization(); });
}

}  // namespace weightfs::tflite
