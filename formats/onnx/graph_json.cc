#include "formats/onnx/graph_json.h"

#include <fmt/core.h>

#include <bit>

#include "base/values/rendering.h"
#include "formats/onnx/fields.h"
#include "formats/onnx/node.h"
#include "formats/onnx/tensor.h"
#include "formats/onnx/value_info.h"

namespace weightfs::onnx {
namespace {

using protobuf::Field;
using protobuf::Fields;
using protobuf::Message;
using protobuf::Scanner;
using protobuf::WireType;

// A doc string, an equation, the text of a custom operator.
constexpr uint64_t kMaxText = 16 << 20;

// Writes field after field, so that memory holds the text and one field. A list is a pass over its message.
class Writer {
 public:
  Writer(Scanner& scanner, Budget& budget, TextSink& out) : scanner_(scanner), budget_(budget), out_(out) {}

  Result<void> graph(const Message& graph, size_t indent) {
    out_.append("{\"name\":");
    TRY_VOID(last_text(graph, graph::kName));
    out_.append(",\"inputs\":");
    TRY_VOID(values(graph, graph::kInput, indent));
    out_.append(",\"outputs\":");
    TRY_VOID(values(graph, graph::kOutput, indent));
    TRY_VOID(annotations(graph, indent));
    out_.append(",\"nodes\":");
    TRY_VOID(nodes(graph, graph::kNode, indent));
    out_.append(1, '}');
    return check_size();
  }

  Result<void> functions(const Message& model) {
    bool any = false;
    Fields fields(scanner_, model);
    while (const auto field = TRY(fields.next())) {
      if (field->tag != model::kFunctions) continue;
      out_.append(any ? ",\n  " : ",\n\"functions\":[\n  ");
      any = true;
      const Message child = TRY(scanner_.child(model, *field));
      TRY_VOID(function(child));
    }
    if (any) out_.append(1, ']');
    return check_size();
  }

 private:
  // A text beyond the budget is not written to its end.
  Result<void> check_size() const {
    if (!out_.stopped()) return {};
    return failure(Code::unsupported, "onnx: a graph.json beyond the budget");
  }

  void new_line(bool is_first, size_t indent) {
    out_.append(is_first ? "\n" : ",\n");
    out_.append(2 * indent, ' ');
  }

  // Calls `write` with each field of this tag, as the elements of a list, each on its line if there is an indent.
  template <class Write>
  Result<void> list(const Message& message, uint32_t tag, size_t indent, const Write& write) {
    out_.append(1, '[');
    bool is_first = true;
    Fields fields(scanner_, message);
    while (const auto field = TRY(fields.next())) {
      if (field->tag != tag) continue;
      if (indent > 0)
        new_line(is_first, indent);
      else if (!is_first)
        out_.append(1, ',');
      is_first = false;
      TRY_VOID(write(*field));
      TRY_VOID(check_size());
    }
    out_.append(1, ']');
    return check_size();
  }

  Result<void> text(const Field& field) {
    const std::string found = TRY(scanner_.text(field.bytes, kMaxText));
    append_json_string(out_, found);
    return {};
  }

  Result<void> texts(const Message& message, uint32_t tag) {
    return list(message, tag, 0, [&](const Field& field) { return text(field); });
  }

  Result<void> last_text(const Message& message, uint32_t tag) {
    const std::string found = TRY(scanner_.text_at(message, tag, kMaxText));
    append_json_string(out_, found);
    return {};
  }

  Result<void> values(const Message& graph, uint32_t tag, size_t indent) {
    return list(graph, tag, indent, [&](const Field& field) -> Result<void> {
      Charges charges(budget_);  // released with the value
      const Message child = TRY(scanner_.child(graph, field));
      const Map value = TRY(describe_value(scanner_, child, charges));
      out_.append(to_json_line(value));
      return {};
    });
  }

  Result<void> annotations(const Message& graph, size_t indent) {
    bool any = false;
    Fields fields(scanner_, graph);
    while (const auto field = TRY(fields.next())) any = any || field->tag == graph::kQuantizationAnnotation;
    if (!any) return {};
    out_.append(",\"quantization_annotation\":");
    return list(graph, graph::kQuantizationAnnotation, indent, [&](const Field& field) -> Result<void> {
      const Message child = TRY(scanner_.child(graph, field));
      return annotation(child);
    });
  }

  Result<void> annotation(const Message& annotation) {
    out_.append("{\"tensor_name\":");
    TRY_VOID(last_text(annotation, quantization::kTensorName));
    out_.append(",\"parameters\":");
    const auto write = [&](const Field& field) -> Result<void> {
      const Message child = TRY(scanner_.child(annotation, field));
      return entry(child);
    };
    TRY_VOID(list(annotation, quantization::kParameterTensorNames, 0, write));
    out_.append(1, '}');
    return {};
  }

  // As a list: keys may be repeated.
  Result<void> entry(const Message& entry) {
    out_.append(1, '[');
    TRY_VOID(last_text(entry, entry::kKey));
    out_.append(1, ',');
    TRY_VOID(last_text(entry, entry::kValue));
    out_.append(1, ']');
    return {};
  }

  Result<void> nodes(const Message& parent, uint32_t tag, size_t indent) {
    return list(parent, tag, indent, [&](const Field& field) -> Result<void> {
      const Message child = TRY(scanner_.child(parent, field));
      return node(child, indent);
    });
  }

  Result<void> node(const Message& node, size_t indent) {
    const NodeNames names = TRY(read_node(scanner_, node));
    out_.append("{\"op_type\":");
    append_json_string(out_, names.op_type);
    out_.append(",\"name\":");
    append_json_string(out_, names.name);
    if (!names.domain.empty()) {
      out_.append(",\"domain\":");
      append_json_string(out_, names.domain);
    }
    out_.append(",\"inputs\":");
    TRY_VOID(texts(node, node::kInput));
    out_.append(",\"outputs\":");
    TRY_VOID(texts(node, node::kOutput));
    TRY_VOID(attributes(node, node::kAttribute, indent));
    out_.append(1, '}');
    return check_size();
  }

  Result<void> attributes(const Message& parent, uint32_t tag, size_t indent) {
    bool any = false;
    Fields fields(scanner_, parent);
    while (const auto field = TRY(fields.next())) {
      if (field->tag != tag) continue;
      out_.append(any ? "," : ",\"attributes\":{");
      any = true;
      const Message attribute = TRY(scanner_.child(parent, *field));
      TRY_VOID(last_text(attribute, attribute::kName));
      out_.append(1, ':');
      TRY_VOID(value(attribute, indent));
    }
    if (any) out_.append(1, '}');
    return check_size();
  }

  // The value of an attribute is the first field that it has of these. Of a number that occurs twice, the last counts.
  Result<void> value(const Message& attribute, size_t indent) {
    std::optional<Field> number;
    Fields fields(scanner_, attribute);
    while (const auto field = TRY(fields.next())) {
      if (field->tag == attribute::kFloat || field->tag == attribute::kInt)
        number = field;
      else if (const bool is_done = !number && TRY(written(attribute, *field, indent)); is_done)
        return {};
    }
    if (!number)
      out_.append("[]");  // an empty list has no field
    else if (number->tag == attribute::kInt)
      out_.append(std::to_string(static_cast<int64_t>(number->value)));
    else
      append_float(static_cast<uint32_t>(number->value));
    return check_size();
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
        out_.append("\"sparse tensor\"");
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
    out_.append("{\"attribute\":");  // of the function that the node is in
    TRY_VOID(text(field));
    out_.append(1, '}');
    return {};
  }

  Result<void> message_value(const Message& attribute, const Field& field, size_t indent) {
    Message child = TRY(scanner_.child(attribute, field));
    const bool is_graph = field.tag == attribute::kGraph || field.tag == attribute::kGraphs;
    return is_graph ? graph(child, indent + 1) : tensor(std::move(child));
  }

  Result<void> numbers(const Message& attribute, uint32_t number, WireType type) {
    out_.append(1, '[');
    bool is_first = true;
    const auto write = [&](uint64_t value) -> Result<void> {
      if (!is_first) out_.append(1, ',');
      is_first = false;
      if (type == WireType::varint)
        out_.append(std::to_string(static_cast<int64_t>(value)));
      else
        append_float(static_cast<uint32_t>(value));
      return check_size();
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
    out_.append(1, ']');
    return {};
  }

  void append_float(uint32_t bits) { out_.append(to_json_line(shortest_decimal(std::bit_cast<float>(bits)))); }

  Result<void> tensor(Message message) {
    const StoredTensor tensor = TRY(read_tensor(scanner_, std::move(message)));
    const ElementType* const type = find_type(tensor.data_type);
    out_.append("{\"tensor\":");
    append_json_string(out_, tensor.name);
    out_.append(fmt::format(",\"dtype\":\"{}\",\"shape\":[",
                            type == nullptr ? type_name(tensor.data_type) : std::string(type->dtype)));
    for (size_t i = 0; i < tensor.shape.size(); ++i)
      out_.append(fmt::format("{}{}", i == 0 ? "" : ",", tensor.shape[i]));
    out_.append("]}");
    return check_size();
  }

  Result<void> function(const Message& function) {
    out_.append("{\"name\":");
    TRY_VOID(last_text(function, function::kName));
    out_.append(",\"domain\":");
    TRY_VOID(last_text(function, function::kDomain));
    out_.append(",\"inputs\":");
    TRY_VOID(texts(function, function::kInput));
    out_.append(",\"outputs\":");
    TRY_VOID(texts(function, function::kOutput));
    TRY_VOID(attributes(function, function::kAttributeProto, 1));
    out_.append(",\"nodes\":");
    TRY_VOID(nodes(function, function::kNode, 2));
    out_.append(1, '}');
    return check_size();
  }

  Scanner& scanner_;
  Budget& budget_;
  TextSink& out_;
};

}  // namespace

Result<std::string> graph_json(const Source& file, const Message& model, const Message& graph, Budget& budget) {
  return rendered(budget, [&](TextSink& out) -> Result<void> {
    // Each rendering may take as much time as reading the model.
    Budget scanning(file.occupied());
    Scanner scanner(file, &scanning);
    Writer writer(scanner, scanning, out);
    out.append("{\"graph\":");
    TRY_VOID(writer.graph(graph, 1));
    TRY_VOID(writer.functions(model));
    out.append("}\n");
    return {};
  });
}

}  // namespace weightfs::onnx
