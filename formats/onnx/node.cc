#include "formats/onnx/node.h"

#include <utility>

#include "formats/common/limits.h"
#include "formats/onnx/fields.h"

namespace weightfs::onnx {

bool NodeNames::is_constant() const { return op_type == "Constant" && (domain.empty() || domain == "ai.onnx"); }

Result<NodeNames> read_node(Scanner& scanner, const Message& node) {
  NodeNames names;
  bool has_output = false;
  Fields fields(scanner, node);
  while (const auto field = TRY(fields.next())) {
    std::string* text = nullptr;
    if (field->tag == node::kName) text = &names.name;
    if (field->tag == node::kOpType) text = &names.op_type;
    if (field->tag == node::kDomain) text = &names.domain;
    if (field->tag == node::kOutput && !std::exchange(has_output, true)) text = &names.first_output;
    if (text != nullptr) *text = TRY(scanner.text(field->bytes, kMaxNameLength));
  }
  return names;
}

}  // namespace weightfs::onnx
