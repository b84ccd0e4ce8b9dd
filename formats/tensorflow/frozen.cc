// A graph in a file of its own: a GraphDef, whose constants are the weights if it was frozen, or the MetaGraphDef
// beside a checkpoint of TensorFlow 1. As graph.proto and meta_graph.proto of TensorFlow 2.18 describe them.
#include "base/text.h"
#include "formats/format.h"
#include "formats/tensorflow/graph.h"
#include "formats/tensorflow/graph_json.h"
#include "formats/tensorflow/meta_graph.h"

namespace weightfs {
namespace tensorflow {
namespace {

Result<Model> read_graph_file(const Container& container) {
  const BudgetPtr& budget = container.budget;
  Scanner scanner(*container.bytes, budget.get());
  const Message whole = scanner.whole();
  const GraphKind kind = TRY(kind_of_graph(scanner, whole));
  if (kind == GraphKind::other) return failure(Code::corrupt, "not a graph");
  Model model;
  Warnings warnings;
  GraphReader graphs({container.bytes, budget}, scanner, model, warnings);
  Message graph = whole;
  Map described;
  if (kind == GraphKind::meta_graph) {
    graph = TRY(scanner.message_at(whole, meta_graph::kGraph));
    described = TRY(describe_meta_graph(scanner, whole, *budget));
  }
  TRY_VOID(graphs.read(graph, Constants::all));
  model.format = "tensorflow-graph";
  model.version = text_in(described, "tensorflow_version");
  TRY_VOID(add_ends(described, graphs, *budget, model.metadata));
  for (const auto& [key, value] : described) model.metadata.append(key, value);
  for (const auto& [key, value] : graphs.facts()) model.metadata.append(key, value);
  graphs.take_code().move_to(model.common);
  model.parts.push_back({container.name, Later<SourcePtr>::of(container.bytes)});
  add_graph_json(model, "graph.json", container.bytes, graph, budget);
  std::move(warnings).move_to(model);
  return model;
}

// Takes the fields at the beginning of a file one after another, also of one that is cut.
class FirstFields {
 public:
  explicit FirstFields(std::string_view head) : head_(head), bytes_(in_memory(std::string(head))) {}

  // Enters the message in the next field if it has this tag.
  bool enters(uint32_t tag) {
    uint64_t at = at_;
    const auto found = scanner_.number(at, head_.size(), protobuf::WireType::varint);
    if (!found || *found != tag) return false;
    const auto size = scanner_.number(at, head_.size(), protobuf::WireType::varint);
    if (!size) return false;
    size_ = *size;
    at_ = at;
    return true;
  }

  // The text in the next field if it has this tag.
  std::string_view text(uint32_t tag) {
    if (!enters(tag) || size_ > head_.size() - at_) return {};
    const std::string_view text = head_.substr(static_cast<size_t>(at_), static_cast<size_t>(size_));
    at_ += size_;
    return text;
  }

 private:
  std::string_view head_;
  SourcePtr bytes_;
  protobuf::Scanner scanner_{*bytes_, nullptr};
  uint64_t at_ = 0;
  uint64_t size_ = 0;  // of the field that was entered last
};

// Whether this is the name of an operator: "MatMul", "_Arg", "Addons>Gelu".
bool is_operator(std::string_view name) {
  const auto is_letter = [](char c) { return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_'; };
  return name.size() > 1 && is_letter(name.front()) && is_visible_ascii(name);
}

// Whether the file begins with a node, with its name and its operator.
bool begins_graph(std::string_view head) {
  FirstFields fields(head);
  if (!fields.enters(graph::kNode)) return false;
  const std::string_view name = fields.text(node::kName);
  return !name.empty() && is_visible_ascii(name) && is_operator(fields.text(node::kOp));
}

// Whether it begins with the operators of a MetaGraphDef.
bool begins_meta_graph(std::string_view head) {
  FirstFields fields(head);
  if (!fields.enters(meta_graph::kInfo)) return false;
  fields.text(info::kMetaGraphVersion);
  return fields.enters(info::kOperators) && fields.enters(op_list::kOp) && is_operator(fields.text(op::kName));
}

}  // namespace
}  // namespace tensorflow

// No magic number: the first field must be a node, with its name and its operator, or belong to a message that has
// such nodes.
Match matches_tensorflow_graph(const Probe& probe) {
  if (probe.head.empty() || probe.name.ends_with("saved_model.pb")) return Match::no;
  const auto tag = static_cast<uint8_t>(probe.head.front());
  const bool is_field = tag == tensorflow::graph::kNode || tag == tensorflow::graph::kLibrary ||
                        tag == tensorflow::graph::kVersions || tag == tensorflow::graph::kOldVersion;
  if (!is_field) return Match::no;
  if (tensorflow::begins_graph(probe.head) || tensorflow::begins_meta_graph(probe.head)) return Match::yes;
  const SourcePtr head = in_memory(std::string(probe.head));
  protobuf::Scanner scanner(*head, nullptr);
  uint64_t at = 1;
  const auto value = scanner.number(at, probe.head.size(), protobuf::WireType::varint);
  const bool is_message = tag != tensorflow::graph::kOldVersion;
  return value && (!is_message || *value <= probe.size - at) ? Match::maybe : Match::no;
}

Result<Model> read_tensorflow_graph(const Container& container) { return tensorflow::read_graph_file(container); }

}  // namespace weightfs
