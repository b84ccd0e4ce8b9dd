#include "formats/rten/graph.h"

#include <flatbuffers/reflection.h>
#include <fmt/core.h>
#include <rten_generated.h>

#include "base/text.h"
#include "formats/graphs/graph_writer.h"
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

class Writer {
 public:
  Writer(const StructureImage& image, const Sections& sections, GraphWriter& out)
      : image_(image), sections_(sections), out_(out) {}

  Result<void> graph(const Graph& graph, size_t depth) {
    out_.begin('{');
    TRY_VOID(ids("inputs", graph.inputs()));
    TRY_VOID(ids("outputs", graph.outputs()));
    TRY_VOID(ids("captures", graph.captures()));
    out_.begin("nodes", '[');
    const auto nodes = nodes_of(graph);
    for (size_t id = 0; id < nodes.size(); ++id) TRY_VOID(node(*nodes[id], id, nodes.size(), depth));
    return out_.end("]}");
  }

 private:
  Result<void> node(const Node& node, uint64_t id, uint64_t count, size_t depth) {
    std::string line = to_json_line(describe(node, id, image_, sections_));
    line.pop_back();
    out_.line(depth);
    out_.json(line);
    TRY_VOID(out_.check_size());
    const auto* op = node.data_as_OperatorNode();
    if (op != nullptr) {
      TRY_VOID(ids("inputs", op->inputs()));
      TRY_VOID(ids("outputs", op->outputs()));
    }
    if (const auto problem = problem_of(node, id, count)) TRY_VOID(out_.attribute("problem", to_json_line(*problem)));
    if (op != nullptr) TRY_VOID(attributes(*op, depth));
    return out_.end("}");
  }

  template <class Id>
  Result<void> ids(std::string_view name, const flatbuffers::Vector<Id>* ids) {
    return list(name, ids, [&](auto i) { return std::to_string(ids->Get(i)); });
  }

  template <class Numbers, class Text>
  Result<void> list(std::string_view name, const Numbers* numbers, const Text& text) {
    if (numbers == nullptr) return out_.attribute(name, "null");
    return out_.list(name, numbers->size(),
                     [&](size_t i) -> Result<std::string> { return text(static_cast<flatbuffers::uoffset_t>(i)); });
  }

  Result<void> attributes(const OperatorNode& op, size_t depth) {
    const auto tag = static_cast<uint8_t>(op.attrs_type());
    const auto* table = static_cast<const Table*>(op.attrs());
    if (tag == 0 || table == nullptr) return {};
    out_.begin("attrs", '{');
    if (const Named* known = attributes_.find(tag))
      TRY_VOID(attributes(*known->table, *table, depth));
    else
      TRY_VOID(out_.attribute("unknown_attrs", std::to_string(tag)));
    return out_.end("}");
  }

  Result<void> attributes(const TableType& type, const Table& table, size_t depth) {
    for (const Field& field : type.fields) TRY_VOID(attribute(field, table, depth));
    return {};
  }

  // The only tables among attributes are graphs, and the only lists are of numbers.
  Result<void> attribute(const Field& field, const Table& table, size_t depth) {
    const auto* subgraph = field.table == nullptr ? nullptr : table.GetPointer<const Graph*>(field.slot);
    if (subgraph != nullptr) {
      out_.key(field.name);
      return graph(*subgraph, depth + 1);
    }
    if (!field.is_list)
      return out_.attribute(field.name, field.table != nullptr ? "null" : to_json_line(value(field, table)));
    const auto* numbers = table.GetPointer<const flatbuffers::VectorOfAny*>(field.slot);
    return list(field.name, numbers,
                [&](auto i) { return to_json_line(number(field, numbers->Data() + i * field.width)); });
  }

  const StructureImage& image_;
  const Sections& sections_;
  GraphWriter& out_;
  const Names& attributes_ = union_type("OperatorAttrs");
};

}  // namespace

Result<std::string> graph_json(const StructureImage& image, const Sections& sections, Budget& budget) {
  return graph_document(budget, [&](GraphWriter& out) {
    const Graph* const graph = image.model().graph();
    return graph == nullptr ? Result<void>() : Writer(image, sections, out).graph(*graph, 1);
  });
}

}  // namespace weightfs::rten
