#include "formats/onnx/graph_json.h"

#include <bit>
#include <utility>

#include "formats/graphs/graph_writer.h"
#include "formats/onnx/fields.h"
#include "formats/onnx/node.h"
#include "formats/onnx/tensor.h"
#include "formats/onnx/value_info.h"

namespace weightfs::onnx {
namespace {

// A doc string, an equation, the text of a custom operator.
constexpr uint64_t kMaxText = 16 << 20;

// A list is a pass over its message.
class Writer {
 public:
  Writer(Scanner& scanner, Budget& budget, GraphWriter& out) : scanner_(scanner), budget_(budget), out_(out) {}

  Result<void> document(const Message& model, const Message& main) {
    out_.begin('{');
    out_.key("graph");
    TRY_VOID(graph(main, 1));
    TRY_VOID(functions(model));
    return out_.end("}");
  }

 private:
  Result<void> graph(const Message& graph, size_t indent) {
    out_.begin('{');
    TRY_VOID(text_attribute("name", graph, graph::kName));
    TRY_VOID(values("inputs", graph, graph::kInput, indent));
    TRY_VOID(values("outputs", graph, graph::kOutput, indent));
    if (TRY(has_field(graph, graph::kValueInfo))) TRY_VOID(values("values", graph, graph::kValueInfo, indent));
    TRY_VOID(annotations(graph, indent));
    TRY_VOID(nodes(graph, graph::kNode, indent));
    return out_.end("}");
  }

  Result<void> functions(const Message& model) {
    if (!TRY(has_field(model, model::kFunctions))) return {};
    out_.line();
    out_.key("functions");
    return list(model, model::kFunctions, 1, [&](const Field& field) -> Result<void> {
      const Message child = TRY(scanner_.child(model, field));
      return function(child);
    });
  }

  Result<bool> has_field(const Message& message, uint32_t tag) {
    Fields fields(scanner_, message);
    while (const auto field = TRY(fields.next()))
      if (field->tag == tag) return true;
    return false;
  }

  // Calls `write` with each field of this tag, as the elements of a list, each on its line if there is an indent.
  template <class Write>
  Result<void> list(const Message& message, uint32_t tag, size_t indent, const Write& write) {
    out_.begin('[');
    Fields fields(scanner_, message);
    while (const auto field = TRY(fields.next())) {
      if (field->tag != tag) continue;
      if (indent > 0) out_.line(indent);
      TRY_VOID(write(*field));
      TRY_VOID(out_.check_size());
    }
    return out_.end("]");
  }

  Result<void> text(const Field& field) {
    out_.text(TRY(scanner_.text(field.bytes, kMaxText)));
    return {};
  }

  Result<void> texts(const Message& message, uint32_t tag) {
    return list(message, tag, 0, [&](const Field& field) { return text(field); });
  }

  // The last text counts.
  Result<void> text_attribute(std::string_view name, const Message& message, uint32_t tag) {
    return out_.text_attribute(name, TRY(scanner_.text_at(message, tag, kMaxText)));
  }

  Result<void> values(std::string_view name, const Message& graph, uint32_t tag, size_t indent) {
    out_.key(name);
    return list(graph, tag, indent, [&](const Field& field) -> Result<void> {
      Charges charges(budget_);  // released with the value
      const Message child = TRY(scanner_.child(graph, field));
      const Map value = TRY(describe_value(scanner_, child, charges));
      out_.json(to_json_line(value));
      return {};
    });
  }

  Result<void> annotations(const Message& graph, size_t indent) {
    if (!TRY(has_field(graph, graph::kQuantizationAnnotation))) return {};
    out_.key("quantization_annotation");
    return list(graph, graph::kQuantizationAnnotation, indent, [&](const Field& field) -> Result<void> {
      const Message child = TRY(scanner_.child(graph, field));
      return annotation(child);
    });
  }

  Result<void> annotation(const Message& annotation) {
    out_.begin('{');
    TRY_VOID(text_attribute("tensor_name", annotation, quantization::kTensorName));
    out_.key("parameters");
    const auto write = [&](const Field& field) -> Result<void> {
      const Message child = TRY(scanner_.child(annotation, field));
      return entry(child);
    };
    TRY_VOID(list(annotation, quantization::kParameterTensorNames, 0, write));
    return out_.end("}");
  }

  // As a list: keys may be repeated.
  Result<void> entry(const Message& entry) {
    out_.begin('[');
    out_.text(TRY(scanner_.text_at(entry, entry::kKey, kMaxText)));
    out_.text(TRY(scanner_.text_at(entry, entry::kValue, kMaxText)));
    return out_.end("]");
  }

  Result<void> nodes(const Message& parent, uint32_t tag, size_t indent) {
    out_.key("nodes");
    return list(parent, tag, indent, [&](const Field& field) -> Result<void> {
      const Message child = TRY(scanner_.child(parent, field));
      return node(child, indent);
    });
  }

  Result<void> node(const Message& node, size_t indent) {
    const NodeNames names = TRY(read_node(scanner_, node));
    out_.begin('{');
    TRY_VOID(out_.text_attribute("op_type", names.op_type));
    TRY_VOID(out_.text_attribute("name", names.name));
    if (!names.domain.empty()) TRY_VOID(out_.text_attribute("domain", names.domain));
    TRY_VOID(arguments(node, node::kInput, node::kOutput));
    TRY_VOID(attributes(node, node::kAttribute, indent));
    return out_.end("}");
  }

  Result<void> arguments(const Message& message, uint32_t inputs, uint32_t outputs) {
    out_.key("inputs");
    TRY_VOID(texts(message, inputs));
    out_.key("outputs");
    return texts(message, outputs);
  }

  Result<void> attributes(const Message& parent, uint32_t tag, size_t indent) {
    bool any = false;
    Fields fields(scanner_, parent);
    while (const auto field = TRY(fields.next())) {
      if (field->tag != tag) continue;
      if (!std::exchange(any, true)) out_.begin("attributes", '{');
      const Message attribute = TRY(scanner_.child(parent, *field));
      out_.key(TRY(scanner_.text_at(attribute, attribute::kName, kMaxText)));
      TRY_VOID(value(attribute, indent));
    }
    return any ? out_.end("}") : Result<void>();
  }

  // The value of an attribute is the first field that it has of these. If a number occurs twice, the last counts.
  Result<void> value(const Message& attribute, size_t indent) {
    std::optional<Field> number;
    Fields fields(scanner_, attribute);
    while (const auto field = TRY(fields.next())) {
      if (field->tag == attribute::kFloat || field->tag == attribute::kInt)
        number = field;
      else if (const bool is_done = !number && TRY(written(attribute, *field, indent)); is_done)
        return {};
    }
    out_.json(!number                          ? "[]"  // an empty list has no field
              : number->tag == attribute::kInt ? std::to_string(static_cast<int64_t>(number->value))
                                               : float_text(static_cast<uint32_t>(number->value)));
    return out_.check_size();
  }

  // Whether this field decides the kind of the attribute; then the value is written.
  Result<bool> written(const Message& attribute, const Field& field, size_t indent) {
    switch (field.tag) {
      case attribute::kString:
      case attribute::kStrings:
      case attribute::kReference:
        TRY_VOID(text_value(attribute, field));
        return true;
      case attribute::kTensor:
      case attribute::kGraph:
        TRY_VOID(message_value(attribute, field, indent));
        return true;
      case attribute::kTensors:
      case attribute::kGraphs: {
        const auto write = [&](const Field& each) { return message_value(attribute, each, indent); };
        TRY_VOID(list(attribute, field.tag, 0, write));
        return true;
      }
      case attribute::kSparseTensor:
      case attribute::kSparseTensors:
        out_.text("sparse tensor");
        return true;
      case fixed32(attribute::kFloats):
      case bytes(attribute::kFloats):
        TRY_VOID(numbers(attribute, attribute::kFloats, WireType::fixed32));
        return true;
      case varint(attribute::kInts):
      case bytes(attribute::kInts):
        TRY_VOID(numbers(attribute, attribute::kInts, WireType::varint));
        return true;
      default:
        return false;
    }
  }

  Result<void> text_value(const Message& attribute, const Field& field) {
    if (field.tag == attribute::kStrings) return texts(attribute, attribute::kStrings);
    if (field.tag == attribute::kString) return text(field);
    out_.begin('{');
    out_.key("attribute");  // of the function that the node is in
    TRY_VOID(text(field));
    return out_.end("}");
  }

  Result<void> message_value(const Message& attribute, const Field& field, size_t indent) {
    Message child = TRY(scanner_.child(attribute, field));
    const bool is_graph = field.tag == attribute::kGraph || field.tag == attribute::kGraphs;
    return is_graph ? graph(child, indent + 1) : tensor(std::move(child));
  }

  Result<void> numbers(const Message& attribute, uint32_t number, WireType type) {
    out_.begin('[');
    const auto write = [&](uint64_t value) {
      out_.json(type == WireType::varint ? std::to_string(static_cast<int64_t>(value))
                                         : float_text(static_cast<uint32_t>(value)));
      return out_.check_size();
    };
    Fields fields(scanner_, attribute);
    while (const auto field = TRY(fields.next())) {
      if (field->tag == protobuf::tag(number, type)) TRY_VOID(write(field->value));
      if (field->tag != bytes(number)) continue;
      for (uint64_t at = field->bytes.begin; at < field->bytes.end;) {
        const uint64_t each = TRY(scanner_.number(at, field->bytes.end, type));
        TRY_VOID(write(each));
      }
    }
    return out_.end("]");
  }

  static std::string float_text(uint32_t bits) { return to_json_line(shortest_decimal(std::bit_cast<float>(bits))); }

  Result<void> tensor(Message message) {
    const StoredTensor tensor = TRY(read_tensor(scanner_, std::move(message)));
    const ElementType* const type = kElementTypes.find(tensor.data_type);
    out_.begin('{');
    TRY_VOID(out_.text_attribute("tensor", tensor.name));
    TRY_VOID(out_.text_attribute("dtype",
                                 type == nullptr ? kElementTypes.name(tensor.data_type) : std::string(type->dtype)));
    TRY_VOID(out_.list("shape", tensor.shape.size(),
                       [&](size_t i) -> Result<std::string> { return std::to_string(tensor.shape[i]); }));
    return out_.end("}");
  }

  Result<void> function(const Message& function) {
    out_.begin('{');
    TRY_VOID(text_attribute("name", function, function::kName));
    TRY_VOID(text_attribute("domain", function, function::kDomain));
    TRY_VOID(arguments(function, function::kInput, function::kOutput));
    TRY_VOID(attributes(function, function::kAttributeProto, 1));
    TRY_VOID(nodes(function, function::kNode, 2));
    return out_.end("}");
  }

  Scanner& scanner_;
  Budget& budget_;
  GraphWriter& out_;
};

}  // namespace

Result<std::string> graph_json(const Source& file, const Message& model, const Message& graph, Budget& budget) {
  return graph_document(budget, [&](GraphWriter& out) {
    // Each rendering may take as much time as reading the model.
    Budget scanning(file.occupied());
    Scanner scanner(file, &scanning);
    return Writer(scanner, scanning, out).document(model, graph);
  });
}

}  // namespace weightfs::onnx
