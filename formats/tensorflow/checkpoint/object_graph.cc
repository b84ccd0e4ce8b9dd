#include "formats/tensorflow/checkpoint/object_graph.h"

#include "formats/common/limits.h"
#include "formats/graphs/graph_writer.h"
#include "formats/tensorflow/checkpoint/strings.h"
#include "formats/tensorflow/fields.h"

namespace weightfs::tensorflow {
namespace {

Result<void> write_attribute(Scanner& scanner, const Message& attribute, GraphWriter& out) {
  const std::string key = TRY(scanner.text_at(attribute, objects::kKey, kMaxNameLength));
  const std::string name = TRY(scanner.text_at(attribute, objects::kFullName, kMaxNameLength));
  if (key.empty() || name.empty()) return {};
  out.line(1);
  return out.text_attribute(key, name);
}

Result<void> write_names(const Slice& graph, GraphWriter& out) {
  // Each rendering may take as much time as reading the model.
  Budget scanning(graph.occupied());
  Scanner scanner(graph, &scanning);
  const Message whole = scanner.whole();
  out.begin('{');
  Fields nodes(scanner, whole);
  while (const auto each = TRY(nodes.next())) {
    if (each->tag != objects::kNode) continue;
    const Message node = TRY(scanner.child(whole, *each));
    Fields fields(scanner, node);
    while (const auto field = TRY(fields.next())) {
      if (field->tag != objects::kAttribute) continue;
      const Message attribute = TRY(scanner.child(node, *field));
      TRY_VOID(write_attribute(scanner, attribute, out));
    }
  }
  return out.end("\n}");
}

}  // namespace

Result<std::string> full_names(const StoredStrings& stored, Budget& budget) {
  const Slice graph = TRY(only_string(stored, budget));
  return graph_document(budget, [&](GraphWriter& out) { return write_names(graph, out); });
}

}  // namespace weightfs::tensorflow
