#include "formats/tensorflow/graph_json.h"

#include <bit>
#include <utility>

#include "base/values/rendering.h"
#include "formats/common/limits.h"
#include "formats/graphs/graph_writer.h"
#include "formats/tensorflow/fields.h"
#include "formats/tensorflow/node.h"
#include "formats/tensorflow/tensor.h"

namespace weightfs::tensorflow {
namespace {

constexpr uint64_t kMaxText = 16 << 20;

// A list is a pass over its message.
class Writer {
 public:
  Writer(Scanner& scanner, GraphWriter& out) : scanner_(scanner), out_(out) {}

  Result<void> document(const Message& graph) {
    out_.begin('{');
    out_.begin("graph_def", '{');
    TRY_VOID(nodes(graph, graph::kNode, 1));
    TRY_VOID(out_.end("}"));
    out_.line();
    out_.begin("functions", '[');
    Fields fields(scanner_, graph);
    while (const auto field = TRY(fields.next())) {
      if (field->tag != graph::kLibrary) continue;
      const Message library = TRY(scanner_.child(graph, *field));
      TRY_VOID(functions(library));
    }
    return out_.end("]}");
  }

 private:
  Result<void> functions(const Message& library) {
    Fields fields(scanner_, library);
    while (const auto field = TRY(fields.next())) {
      if (field->tag != library::kFunction) continue;
      const Message child = TRY(scanner_.child(library, *field));
      out_.line(1);
      TRY_VOID(function(child));
    }
    return {};
  }

  Result<void> function(const Message& function) {
    const Message signature = TRY(scanner_.message_at(function, function::kSignature));
    out_.begin('{');
    TRY_VOID(text_attribute("name", signature, op::kName));
    TRY_VOID(arguments("inputs", signature, op::kInputArg));
    TRY_VOID(arguments("outputs", signature, op::kOutputArg));
    TRY_VOID(returns(function));
    TRY_VOID(nodes(function, function::kNode, 2));
    return out_.end("}");
  }

  Result<void> arguments(std::string_view name, const Message& signature, uint32_t tag) {
    out_.begin(name, '[');
    Fields fields(scanner_, signature);
    while (const auto field = TRY(fields.next())) {
      if (field->tag != tag) continue;
      const Message argument = TRY(scanner_.child(signature, *field));
      out_.text(TRY(scanner_.text_at(argument, op::kArgName, kMaxText)));
      TRY_VOID(out_.check_size());
    }
    return out_.end("]");
  }

  // Which value each output is: pairs, as an object may not repeat a key.
  Result<void> returns(const Message& function) {
    out_.begin("returns", '[');
    Fields fields(scanner_, function);
    while (const auto field = TRY(fields.next())) {
      if (field->tag != function::kReturn) continue;
      const Message entry = TRY(scanner_.child(function, *field));
      out_.begin('[');
      out_.text(TRY(scanner_.text_at(entry, entry::kKey, kMaxText)));
      out_.text(TRY(scanner_.text_at(entry, entry::kValue, kMaxText)));
      TRY_VOID(out_.end("]"));
    }
    return out_.end("]");
  }

  Result<void> text_attribute(std::string_view name, const Message& message, uint32_t tag) {
    return out_.text_attribute(name, TRY(scanner_.text_at(message, tag, kMaxText)));
  }

  Result<void> nodes(const Message& parent, uint32_t tag, size_t indent) {
    out_.begin("nodes", '[');
    Fields fields(scanner_, parent);
    while (const auto field = TRY(fields.next())) {
      if (field->tag != tag) continue;
      const Message child = TRY(scanner_.child(parent, *field));
      out_.begin_node(indent);
      TRY_VOID(node(child));
    }
    return out_.end("]");
  }

  Result<void> node(const Message& node) {
    const NodeNames names = TRY(read_node(scanner_, node));
    TRY_VOID(out_.text_attribute("op", names.op));
    TRY_VOID(out_.text_attribute("name", names.name));
    const std::string device = TRY(scanner_.text_at(node, node::kDevice, kMaxText));
    if (!device.empty()) TRY_VOID(out_.text_attribute("device", device));
    out_.begin("inputs", '[');
    Fields fields(scanner_, node);
    while (const auto field = TRY(fields.next())) {
      if (field->tag != node::kInput) continue;
      out_.text(TRY(scanner_.text(field->bytes, kMaxText)));
      TRY_VOID(out_.check_size());
    }
    TRY_VOID(out_.end("]"));
    TRY_VOID(attributes(node));
    return out_.end("}");
  }

  Result<void> attributes(const Message& node) {
    bool any = false;
    Fields fields(scanner_, node);
    while (const auto field = TRY(fields.next())) {
      if (field->tag != node::kAttribute) continue;
      if (!std::exchange(any, true)) out_.begin("attributes", '{');
      const Message entry = TRY(scanner_.child(node, *field));
      TRY_VOID(attribute_entry(entry));
    }
    return any ? out_.end("}") : Result<void>();
  }

  Result<void> attribute_entry(const Message& entry) {
    std::string name;
    Message value;
    Fields fields(scanner_, entry);
    while (const auto field = TRY(fields.next())) {
      if (field->tag == entry::kKey) name = TRY(scanner_.text(field->bytes, kMaxText));
      if (field->tag == entry::kValue) TRY_VOID(scanner_.merge(value, entry, *field));
    }
    out_.key(name);
    return attribute(value);
  }

  // The value is the last field that the attribute has of these.
  Result<void> attribute(const Message& attribute) {
    std::optional<Field> last;
    Fields fields(scanner_, attribute);
    while (const auto field = TRY(fields.next()))
      if (is_value(field->tag)) last = field;
    if (!last) {
      out_.json("null");
      return out_.check_size();
    }
    if (last->tag == attribute::kList) return list(TRY(scanner_.child(attribute, *last)));
    if (last->tag != attribute::kPlaceholder) return value(attribute, *last);
    const std::string name = TRY(scanner_.text(last->bytes, kMaxText));
    out_.begin('{');
    TRY_VOID(out_.text_attribute("attribute", name));  // of the function that the node is in
    return out_.end("}");
  }

  static bool is_value(uint32_t tag) {
    return tag == attribute::kList || tag == attribute::kText || tag == attribute::kInteger ||
           tag == attribute::kFloat || tag == attribute::kBool || tag == attribute::kType || tag == attribute::kShape ||
           tag == attribute::kTensor || tag == attribute::kPlaceholder || tag == attribute::kFunction;
  }

  Result<void> list(const Message& list) {
    out_.begin('[');
    Fields fields(scanner_, list);
    while (const auto field = TRY(fields.next())) {
      if (field->tag == attribute::kListFunction)
        TRY_VOID(function_value(list, *field));
      else if (is_packed(field->tag))
        TRY_VOID(packed(*field));
      else if (is_value(field->tag) && field->tag != attribute::kList)
        TRY_VOID(value(list, *field));
    }
    return out_.end("]");
  }

  static bool is_packed(uint32_t tag) {
    const uint32_t number = tag >> 3;
    return tag == bytes(number) && (number == attribute::kInteger >> 3 || number == attribute::kFloat >> 3 ||
                                    number == attribute::kBool >> 3 || number == attribute::kType >> 3);
  }

  Result<void> packed(const Field& chunk) {
    const uint32_t number = chunk.number();
    const bool is_float = number == attribute::kFloat >> 3;
    for (uint64_t at = chunk.bytes.begin; at < chunk.bytes.end;) {
      Field each;
      each.tag = is_float ? fixed32(number) : varint(number);
      each.value = TRY(scanner_.number(at, chunk.bytes.end, is_float ? WireType::fixed32 : WireType::varint));
      TRY_VOID(number_value(each));
    }
    return {};
  }

  Result<void> value(const Message& parent, const Field& field) {
    switch (field.tag) {
      case attribute::kText:
        out_.text(TRY(scanner_.text(field.bytes, kMaxText)));
        return out_.check_size();
      case attribute::kShape:
        return shape(TRY(scanner_.child(parent, field)));
      case attribute::kTensor:
        return tensor(TRY(scanner_.child(parent, field)));
      case attribute::kFunction:
        return function_value(parent, field);
      default:
        return number_value(field);
    }
  }

  Result<void> number_value(const Field& field) {
    if (field.tag == attribute::kBool)
      out_.json(field.value != 0 ? "true" : "false");
    else if (field.tag == attribute::kType)
      out_.text(dtype_name(field.value));
    else if (field.tag == attribute::kFloat)
      out_.json(to_json_line(shortest_decimal(std::bit_cast<float>(static_cast<uint32_t>(field.value)))));
    else
      out_.json(std::to_string(static_cast<int64_t>(field.value)));
    return out_.check_size();
  }

  // Its own attributes may be functions again, at any depth: they are not shown.
  Result<void> function_value(const Message& parent, const Field& field) {
    const Message function = TRY(scanner_.child(parent, field));
    out_.begin('{');
    TRY_VOID(text_attribute("function", function, attribute::kFunctionName));
    return out_.end("}");
  }

  Result<void> shape(const Message& message) {
    const StoredShape shape = TRY(read_shape(scanner_, message));
    return shape_value(shape);
  }

  // null: a shape of unknown rank.
  Result<void> shape_value(const StoredShape& shape) {
    if (shape.has_unknown_rank)
      out_.json("null");
    else
      out_.begin('[');
    for (const int64_t size : shape.sizes)
      if (!shape.has_unknown_rank) out_.json(std::to_string(size));
    return shape.has_unknown_rank ? out_.check_size() : out_.end("]");
  }

  Result<void> tensor(Message message) {
    const StoredTensor tensor = TRY(read_tensor(scanner_, std::move(message)));
    out_.begin('{');
    TRY_VOID(out_.text_attribute("dtype", dtype_name(tensor.data_type)));
    out_.key("shape");
    TRY_VOID(shape_value(tensor.shape));
    return out_.end("}");
  }

  Scanner& scanner_;
  GraphWriter& out_;
};

Result<std::string> graph_json(const Source& file, const Message& graph, Budget& budget) {
  return graph_document(budget, [&](GraphWriter& out) {
    // Each rendering may take as much time as reading the model.
    Budget scanning(file.occupied());
    Scanner scanner(file, &scanning);
    return Writer(scanner, out).document(graph);
  });
}

}  // namespace

void add_graph_json(Model& model, std::string path, const SourcePtr& file, const Message& graph,
                    const BudgetPtr& budget) {
  model.documents.push_back({std::move(path), Later<SourcePtr>([file, graph, budget]() -> Result<SourcePtr> {
                               auto text = graph_json(*file, graph, *budget);
                               if (!text && text.error().code == Code::corrupt)
                                 text = problem_document(*budget, text.error());
                               return charged_text(TRY(std::move(text)), budget);
                             })});
}

}  // namespace weightfs::tensorflow
