#include "formats/tensorflow/node.h"

#include "base/text.h"
#include "formats/common/limits.h"
#include "formats/tensorflow/fields.h"

namespace weightfs::tensorflow {

bool NodeNames::are_valid() const { return !name.empty() && is_utf8(name) && !op.empty() && is_visible_ascii(op); }

Result<NodeNames> read_node(Scanner& scanner, const Message& node) {
  NodeNames names;
  Fields fields(scanner, node);
  while (const auto field = TRY(fields.next())) {
    if (field->tag == node::kName) names.name = TRY(scanner.text(field->bytes, kMaxNameLength));
    if (field->tag == node::kOp) names.op = TRY(scanner.text(field->bytes, kMaxNameLength));
  }
  return names;
}

Result<Message> attribute_of(Scanner& scanner, const Message& node, std::string_view name) {
  Message found;
  Fields fields(scanner, node);
  while (const auto field = TRY(fields.next())) {
    if (field->tag != node::kAttribute || field->bytes.size() <= name.size()) continue;
    const Message entry = TRY(scanner.child(node, *field));
    if (TRY(scanner.text_at(entry, entry::kKey, kMaxNameLength)) != name) continue;
    found = TRY(scanner.message_at(entry, entry::kValue));
  }
  return found;
}

std::string_view node_of_input(std::string_view input) {
  if (input.starts_with('^')) input.remove_prefix(1);
  return input.substr(0, input.find(':'));
}

namespace {

bool is_graph_field(uint32_t tag) {
  return tag == graph::kNode || tag == graph::kLibrary || tag == graph::kOldVersion || tag == graph::kVersions ||
         tag == graph::kDebugInfo;
}

bool is_meta_graph_field(uint32_t tag) {
  return tag == bytes(tag >> 3) && tag >> 3 >= 1 && tag >> 3 <= meta_graph::kLastField;
}

// Whether the first field 1 is a node. Other messages may have any bytes there.
Result<bool> begins_with_node(Scanner& scanner, const Message& message) {
  Fields fields(scanner, message);
  while (const auto field = TRY(fields.next())) {
    if (field->tag != graph::kNode) continue;
    const Message child = TRY(scanner.child(message, *field));
    const auto names = read_node(scanner, child);
    if (!names && !is_about_the_bytes(names.error())) return tl::unexpected(names.error());
    return names && names->are_valid();
  }
  return false;
}

}  // namespace

Result<GraphKind> kind_of_graph(Scanner& scanner, const Message& message) {
  bool is_graph = true;
  bool is_meta_graph = true;
  Message inner;
  Fields fields(scanner, message);
  while (const auto field = TRY(fields.next())) {
    is_graph = is_graph && is_graph_field(field->tag);
    is_meta_graph = is_meta_graph && is_meta_graph_field(field->tag);
    if (!is_graph && !is_meta_graph) return GraphKind::other;
    if (field->tag == meta_graph::kGraph) inner = TRY(scanner.child(message, *field));
  }
  if (is_graph && TRY(begins_with_node(scanner, message))) return GraphKind::graph;
  if (!is_meta_graph) return GraphKind::other;
  return TRY(begins_with_node(scanner, inner)) ? GraphKind::meta_graph : GraphKind::other;
}

}  // namespace weightfs::tensorflow
