#include <fmt/core.h>
#include <rten_generated.h>

#include <map>

#include "base/text.h"
#include "formats/common/warnings.h"
#include "formats/format.h"
#include "formats/rten/graph.h"
#include "formats/rten/header.h"
#include "formats/rten/image.h"
#include "formats/rten/node.h"
#include "formats/string_pool.h"

namespace weightfs {
namespace rten {
namespace {

// The maximum text size of inputs and outputs in metadata.json; longer ones are only in graph.json.
constexpr size_t kMaxEnds = size_t{1} << 20;

// Fills a weightfs::Model from the graphs of a file.
class ModelReader {
 public:
  ModelReader(const Container& container, const StructureImage& image, const Sections& sections, weightfs::Model& out)
      : container_(container), image_(image), sections_(sections), out_(out) {}

  // Tensors in the order of nodes; those of a subgraph are at its operator's place. The depth was bounded with the
  // image.
  Result<void> graph(const Graph& graph, const std::string& scope) {
    ++graphs_;
    const auto nodes = nodes_of(graph);
    check_ends("input", graph.inputs(), nodes.size(), scope);
    check_ends("output", graph.outputs(), nodes.size(), scope);
    check_ends("capture", graph.captures(), nodes.size(), scope);
    for (size_t id = 0; id < nodes.size(); ++id) TRY_VOID(node(*nodes[id], id, nodes.size(), scope));
    return {};
  }

  // What was counted on the way.
  void add_counts(Map& metadata) const {
    metadata.append("graphs", graphs_);
    Map kinds;
    for (const auto& [kind, count] : kinds_) kinds.append(kind, count);
    metadata.append("nodes", std::move(kinds));
    Map operators;
    for (const auto& [name, count] : operators_) operators.append(name, count);
    metadata.append("operators", std::move(operators));
  }

  Warnings take_warnings() { return std::move(warnings_); }

 private:
  static std::string_view name_of(const Node& node) {
    return node.name() == nullptr ? std::string_view() : node.name()->string_view();
  }

  Result<void> node(const Node& node, uint64_t id, uint64_t count, const std::string& scope) {
    const auto name = name_of(node);
    ++kinds_[kind_of(node)];
    if (const auto problem = problem_of(node, id, count))
      warn(fmt::format("node {} {}", id, quoted(name)), scope, *problem);
    if (const auto* constant = node.data_as_ConstantNode()) TRY_VOID(tensor(name, *constant, scope));
    if (const auto* op = node.data_as_OperatorNode()) TRY_VOID(enter(*op, id, scope));
    return {};
  }

  Result<void> tensor(std::string_view name, const ConstantNode& node, const std::string& scope) {
    const size_t dimensions = node.shape() == nullptr ? 0 : node.shape()->size();
    TRY_VOID(container_.budget->charge(Cost::tensor));
    TRY_VOID(container_.budget->charge(Cost::kept, name.size() + sizeof(uint64_t) * dimensions));
    Constant constant = read_constant(node, image_, sections_);
    Tensor tensor{.name = std::string(name),
                  .dtype = constant.dtype,
                  .stored_dtype = spellings_.add(constant.stored_dtype),
                  .scope = spellings_.add(scope),
                  .shape = std::move(constant.shape),
                  .source = {}};
    auto bytes =
        constant.bytes.and_then([&](const Range& range) { return slice(container_.bytes, range.offset, range.size); });
    if (bytes)
      tensor.source = *std::move(bytes);
    else
      warn(fmt::format("tensor {}", quoted(tensor.name)), scope, bytes.error().message);
    out_.tensors.push_back(std::move(tensor));
    return {};
  }

  Result<void> enter(const OperatorNode& op, uint64_t id, const std::string& scope) {
    ++operators_[operator_name(op.type())];
    const auto enter = [&](const Graph* subgraph, const char* branch) -> Result<void> {
      return subgraph == nullptr
                 ? Result<void>()
                 : graph(*subgraph, fmt::format("{}{}{}.{}", scope, scope.empty() ? "" : "/", id, branch));
    };
    if (const auto* attributes = op.attrs_as_IfAttrs()) {
      TRY_VOID(enter(attributes->then_branch(), "then_branch"));
      TRY_VOID(enter(attributes->else_branch(), "else_branch"));
    }
    const auto* loop = op.attrs_as_LoopAttrs();
    return loop == nullptr ? Result<void>() : enter(loop->body(), "body");
  }

  void check_ends(const char* what, const flatbuffers::Vector<uint32_t>* ids, uint64_t count,
                  const std::string& scope) {
    if (ids == nullptr) return;
    for (const uint32_t id : *ids)
      if (id >= count)
        warn(fmt::format("{} {}", what, id), scope, fmt::format("is not one of the graph's {} nodes", count));
  }

  void warn(const std::string& what, const std::string& scope, const std::string& problem) {
    warnings_.add("{}{}: {}", what, scope.empty() ? "" : fmt::format(" (graph {})", scope), problem);
  }

  const Container& container_;
  const StructureImage& image_;
  const Sections& sections_;
  weightfs::Model& out_;
  uint64_t graphs_ = 0;
  std::map<std::string, uint64_t> kinds_;
  std::map<std::string, uint64_t> operators_;
  Warnings warnings_;
  StringPool spellings_{out_.string_pool};
};

// The nodes that the main graph starts from or ends in.
Value ends(const flatbuffers::Vector<uint32_t>* ids, const Graph& graph, const StructureImage& image,
           const Sections& sections) {
  const auto nodes = nodes_of(graph);
  List out;
  size_t size = 0;
  for (uint32_t i = 0; ids != nullptr && i < ids->size(); ++i) {
    const uint32_t id = ids->Get(i);
    if (id >= nodes.size()) continue;
    out.push_back(describe(*nodes[id], id, image, sections));
    size += to_json(out.back()).size();
    if (out.size() > kMaxInlineList || size > kMaxEnds) return fmt::format("{} nodes: see graph.json", ids->size());
  }
  return out;
}

Map header_of(const Sections& sections) {
  Map out;
  out.append("version", sections.version);
  out.append("model_data_offset", sections.model_offset);
  out.append("model_data_len", sections.model_size);
  out.append("tensor_data_offset", *sections.tensors);
  return out;
}

// The strings of the metadata table that are there.
Map strings_of(const Metadata* metadata) {
  Map out;
  if (metadata == nullptr) return out;
  const auto add = [&](const char* name, const flatbuffers::String* text) {
    if (text != nullptr) out.append(name, text->string_view());
  };
  add("onnx_hash", metadata->onnx_hash());
  add("description", metadata->description());
  add("license", metadata->license());
  add("commit", metadata->commit());
  add("code_repository", metadata->code_repository());
  add("model_repository", metadata->model_repository());
  add("run_id", metadata->run_id());
  add("run_url", metadata->run_url());
  return out;
}

Map common_of(const Metadata* metadata) {
  Map out;
  const auto add = [&](const char* name, const flatbuffers::String* text) {
    if (text != nullptr && text->size() > 0) out.append(name, text->string_view());
  };
  if (metadata == nullptr) return out;
  add("description", metadata->description());
  add("license", metadata->license());
  return out;
}

// graph.json takes more memory than the Model: it is rendered from the file again when it is read.
Document graph_document(const SourcePtr& bytes, const Sections& sections, const BudgetPtr& budget) {
  return {"graph.json", Later<SourcePtr>([=]() -> Result<SourcePtr> {
            Charges charges(*budget);  // released with the image
            const auto image = TRY(StructureImage::load(*bytes, sections.model_offset, sections.model_size, charges));
            return in_memory(TRY(graph_json(image, sections, *budget)));
          })};
}

Result<void> add_graphs(weightfs::Model& out, const Container& container, const StructureImage& image,
                        const Sections& sections) {
  const Graph* graph = image.model().graph();
  if (graph == nullptr) return {};
  ModelReader reading(container, image, sections, out);
  TRY_VOID(reading.graph(*graph, ""));
  reading.add_counts(out.metadata);
  reading.take_warnings().move_to(out);
  out.metadata.append("inputs", ends(graph->inputs(), *graph, image, sections));
  out.metadata.append("outputs", ends(graph->outputs(), *graph, image, sections));
  return {};
}

}  // namespace
}  // namespace rten

Result<Model> read_rten(const Container& container) {
  const auto sections = TRY(rten::find_sections(*container.bytes));
  Charges charges(*container.budget);  // of the image: released with it
  const auto image =
      TRY(rten::StructureImage::load(*container.bytes, sections.model_offset, sections.model_size, charges));
  const int32_t schema_version = image.model().schema_version();
  if (schema_version != 1)
    return failure(Code::unsupported, fmt::format("rten: schema version {}, not 1", schema_version));

  Model model;
  model.format = "rten";
  model.version = std::to_string(sections.version);
  if (sections.tensors) model.metadata.append("header", rten::header_of(sections));
  model.metadata.append("schema_version", schema_version);
  const auto* metadata = image.model().metadata();
  model.common = rten::common_of(metadata);
  if (Map strings = rten::strings_of(metadata); !strings.empty()) model.metadata.append("rten", std::move(strings));
  TRY_VOID(rten::add_graphs(model, container, image, sections).map_error([](const Error& error) {
    return Error{error.code, "rten: " + error.message};
  }));
  model.parts.push_back({container.name, Later<SourcePtr>::of(container.bytes)});
  model.documents.push_back(rten::graph_document(container.bytes, sections, container.budget));
  return model;
}

}  // namespace weightfs
