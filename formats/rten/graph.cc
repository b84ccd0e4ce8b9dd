#include "formats/rten/graph.h"

#include <flatbuffers/reflection.h>
#include <fmt/core.h>
#include <rten_generated.h>

#include <algorithm>

#include "base/text.h"
#include "base/values/rendering.h"
#include "formats/rten/node.h"
#include "formats/rten/schema.h"

namespace weightfs::rten {
namespace {

using flatbuffers::Table;
using reflection::BaseType;

Value named(const Field& field, int64_t number) {
  const Named* known = field.names->find(number);
  return known == nullptr ? fmt::format("unknown({})", number) : std::string(known->name);
}

Value integer(const Field& field, int64_t number) {
  if (field.names != nullptr) return named(field, number);
  return field.type == BaseType::Bool ? Value(number != 0) : Value(number);
}

Value number(const Field& field, const uint8_t* place) {
  if (field.type == BaseType::Float) return shortest_decimal(flatbuffers::ReadScalar<float>(place));
  return integer(field, flatbuffers::GetAnyValueI(field.type, place));
}

Value absent(const Field& field) {
  if (field.optional) return nullptr;
  return field.type == BaseType::Float ? Value(field.default_real) : integer(field, field.default_integer);
}

Map fields(const TableType& type, const Table& table);

// {"IntScalar": {"value": 3}}
Value member(const Field& field, const Table& table) {
  const auto tag = table.GetField<uint8_t>(static_cast<uint16_t>(field.slot - sizeof(uint16_t)), 0);
  const Named* known = field.names->find(tag);
  const auto* value = table.GetPointer<const Table*>(field.slot);
  if (known == nullptr || known->table == nullptr || value == nullptr) return named(field, tag);
  Map out;
  out.append(std::string(known->name), fields(*known->table, *value));
  return out;
}

// The value of anything but a list or a table. No union has a member with one of those.
Value value(const Field& field, const Table& table) {
  if (field.type == BaseType::Union) return member(field, table);
  if (field.type == BaseType::String) {
    const auto* text = table.GetPointer<const flatbuffers::String*>(field.slot);
    return text == nullptr ? Value(nullptr) : Value(text->string_view());
  }
  const uint8_t* place = table.GetAddressOf(field.slot);
  return place == nullptr ? absent(field) : number(field, place);
}

Map fields(const TableType& type, const Table& table) {
  Map out;
  for (const Field& field : type.fields) out.append(std::string(field.name), value(field, table));
  return out;
}

// Writes node after node, so that memory holds the text and one node.
class Writer {
 public:
  Writer(const StructureImage& image, const Sections& sections, TextSink& out)
      : image_(image), sections_(sections), out_(out) {}

  Result<void> graph(const Graph& graph, size_t depth) {
    out_.append(1, '{');
    TRY_VOID(ids("inputs", graph.inputs()));
    out_.append(1, ',');
    TRY_VOID(ids("outputs", graph.outputs()));
    out_.append(1, ',');
    TRY_VOID(ids("captures", graph.captures()));
    out_.append(",\"nodes\":[");
    const auto nodes = nodes_of(graph);
    for (size_t id = 0; id < nodes.size(); ++id) {
      out_.append(id == 0 ? "\n" : ",\n");
      out_.append(depth * 2, ' ');
      TRY_VOID(node(*nodes[id], id, nodes.size(), depth));
    }
    out_.append("]}");
    return {};
  }

 private:
  // A text beyond the budget is not written to its end.
  Result<void> check_size() const {
    if (!out_.stopped()) return {};
    return failure(Code::unsupported, "rten: a graph.json beyond the budget");
  }

  Result<void> node(const Node& node, uint64_t id, uint64_t count, size_t depth) {
    std::string line = to_json_line(describe(node, id, image_, sections_));
    line.pop_back();
    out_.append(line);
    TRY_VOID(check_size());
    const auto* op = node.data_as_OperatorNode();
    if (op != nullptr) {
      out_.append(1, ',');
      TRY_VOID(ids("inputs", op->inputs()));
      out_.append(1, ',');
      TRY_VOID(ids("outputs", op->outputs()));
    }
    if (const auto problem = problem_of(node, id, count))
      out_.append(fmt::format(",\"problem\":{}", to_json_line(*problem)));
    if (op != nullptr) TRY_VOID(attributes(*op, depth));
    out_.append(1, '}');
    return check_size();
  }

  template <class Id>
  Result<void> ids(std::string_view key, const flatbuffers::Vector<Id>* ids) {
    out_.append(fmt::format("\"{}\":", key));
    return list(ids, [&](size_t i) { return std::to_string(ids->Get(static_cast<flatbuffers::uoffset_t>(i))); });
  }

  // Straight into the text: as Values, the numbers would take ten times their size.
  template <class Numbers, class Text>
  Result<void> list(const Numbers* numbers, const Text& text) {
    if (numbers == nullptr) {
      out_.append("null");
      return {};
    }
    out_.append(1, '[');
    for (size_t i = 0; i < numbers->size(); ++i) {
      if (i > 0) out_.append(1, ',');
      out_.append(text(i));
    }
    out_.append(1, ']');
    return check_size();
  }

  Result<void> attributes(const OperatorNode& op, size_t depth) {
    const auto tag = static_cast<uint8_t>(op.attrs_type());
    const auto* table = static_cast<const Table*>(op.attrs());
    if (tag == 0 || table == nullptr) return {};
    out_.append(",\"attrs\":{");
    if (const Named* known = attributes_.find(tag))
      TRY_VOID(attributes(*known->table, *table, depth));
    else
      out_.append(fmt::format("\"unknown_attrs\":{}", int{tag}));
    out_.append(1, '}');
    return {};
  }

  Result<void> attributes(const TableType& type, const Table& table, size_t depth) {
    for (const Field& field : type.fields) {
      out_.append(fmt::format("{}{}\":", &field == type.fields.data() ? "\"" : ",\"", field.name));
      TRY_VOID(attribute(field, table, depth));
    }
    return {};
  }

  // The only tables among attributes are graphs, and the only lists are of numbers.
  Result<void> attribute(const Field& field, const Table& table, size_t depth) {
    const auto* subgraph = field.table == nullptr ? nullptr : table.GetPointer<const Graph*>(field.slot);
    if (subgraph != nullptr) return graph(*subgraph, depth + 1);
    if (field.is_list) {
      const auto* numbers = table.GetPointer<const flatbuffers::VectorOfAny*>(field.slot);
      return list(numbers, [&](size_t i) { return to_json_line(number(field, numbers->Data() + i * field.width)); });
    }
    out_.append(field.table != nullptr ? "null" : to_json_line(value(field, table)));
    return check_size();
  }

  const StructureImage& image_;
  const Sections& sections_;
  TextSink& out_;
  const Names& attributes_ = union_type("OperatorAttrs");
};

}  // namespace

Result<std::string> graph_json(const StructureImage& image, const Sections& sections, Budget& budget) {
  return rendered(budget, [&](TextSink& out) -> Result<void> {
    Writer writer(image, sections, out);
    if (const Graph* graph = image.model().graph()) TRY_VOID(writer.graph(*graph, 1));
    out.append(1, '\n');
    return {};
  });
}

}  // namespace weightfs::rten
