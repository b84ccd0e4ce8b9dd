// ORT format (.ort): an ONNX model as ONNX Runtime stores it for small builds, a FlatBuffer (ort.fbs).
#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/text.h"
#include "formats/common/limits.h"
#include "formats/format.h"
#include "formats/onnx/types.h"
#include "formats/ort/graph.h"

namespace weightfs {
namespace ort {
namespace {

using flatbuffer::Slot;
using flatbuffer::Table;
using Tables = flatbuffer::List;

constexpr std::string_view kIdentifier = "ORTM";
constexpr size_t kIdentifierOffset = 4;

// ort.fbs.
namespace session_slot {
constexpr Slot kVersion = 0, kModel = 1;
}
namespace model_slot {
constexpr Slot kIrVersion = 0, kOpsets = 1, kProducerName = 2, kModelVersion = 5, kDocString = 6, kGraph = 7,
               kProperties = 9;
}
namespace graph_slot {
constexpr Slot kNodeArgs = 1, kInputs = 5, kOutputs = 6;
}
namespace value_slot {
constexpr Slot kName = 0, kType = 2;
}
namespace type_slot {
constexpr Slot kKind = 1, kValue = 2;
constexpr uint8_t kTensor = 1, kSequence = 2, kMap = 3;
}  // namespace type_slot
namespace tensor_type_slot {
constexpr Slot kElement = 0, kShape = 1;
}
namespace dimension_slot {
constexpr Slot kValue = 0;                              // of Dimension
constexpr Slot kKind = 0, kNumber = 1, kParameter = 2;  // of DimensionValue
constexpr int8_t kIsNumber = 1, kIsParameter = 2;
}  // namespace dimension_slot

constexpr uint64_t kMaxText = 1 << 20;
constexpr uint64_t kMaxEntries = 65'536;

class ModelReader {
 public:
  explicit ModelReader(const Container& container)
      : container_(container), buffer_(*container.bytes, *container.budget), graphs_(container, buffer_, model_) {}

  Result<Model> read() {
    const Table session = TRY(Table::root(buffer_));
    const Table stored = TRY(session.table(session_slot::kModel));
    const Table main = TRY(stored.table(model_slot::kGraph));
    if (!main.exists()) return failure(Code::corrupt, "no graph");
    model_.format = "ort";
    model_.version = TRY(session.text(session_slot::kVersion, kMaxNameLength));
    TRY_VOID(add_header(stored));
    TRY_VOID(add_ends("inputs", main, graph_slot::kInputs));
    TRY_VOID(add_ends("outputs", main, graph_slot::kOutputs));
    TRY_VOID(graphs_.graph(main, "", 0));
    graphs_.finish();
    model_.parts.push_back({container_.name, Later<SourcePtr>::of(container_.bytes)});
    return std::move(model_);
  }

 private:
  Result<void> charge(const Value& value) { return charge(footprint(value)); }

  Result<void> charge(const Footprint& size) {
    TRY_VOID(container_.budget->charge(Cost::value, size.values + 1));
    return container_.budget->charge(Cost::kept, size.bytes);
  }

  Result<void> add(Map& map, std::string key, Value value) {
    TRY_VOID(charge(value));
    map.append(std::move(key), std::move(value));
    return {};
  }

  Result<void> add_header(const Table& stored) {
    const auto ir_version = TRY(stored.number<int64_t>(model_slot::kIrVersion));
    TRY_VOID(add(model_.metadata, "ir_version", ir_version));
    Slot slot = model_slot::kProducerName;
    for (const char* const key : {"producer_name", "producer_version", "domain"}) {
      std::string text = TRY(stored.text(slot++, kMaxText));
      if (!text.empty()) TRY_VOID(add(model_.metadata, key, std::move(text)));
    }
    const auto version = TRY(stored.number<int64_t>(model_slot::kModelVersion));
    TRY_VOID(add(model_.metadata, "model_version", version));
    std::string description = TRY(stored.text(model_slot::kDocString, kMaxText));
    if (!description.empty()) TRY_VOID(add(model_.common, "description", std::move(description)));
    Map opsets = TRY(entries(stored, model_slot::kOpsets));
    model_.metadata.append("opset_import", std::move(opsets));
    Map properties = TRY(entries(stored, model_slot::kProperties));
    model_.metadata.append("metadata_props", std::move(properties));
    return {};
  }

  // Pairs of a key and a value: of opsets, the value is a number.
  Result<Map> entries(const Table& stored, Slot slot) {
    Map map;
    const Tables list = TRY(stored.tables(slot));
    if (list.size() > kMaxEntries)
      return failure(Code::unsupported, fmt::format("{} entries of metadata, at most {}", list.size(), kMaxEntries));
    for (uint64_t i = 0; i < list.size(); ++i) {
      const Table entry = TRY(list.table(i));
      std::string key = TRY(entry.text(0, kMaxNameLength));
      TRY_VOID(container_.budget->charge(Cost::kept, key.size()));
      Value value;
      if (slot == model_slot::kOpsets) {
        value = TRY(entry.number<int64_t>(1));
        if (key.empty()) key = "ai.onnx";
      } else {
        value = TRY(entry.text(1, kMaxText));
      }
      TRY_VOID(add(map, std::move(key), std::move(value)));
    }
    map.keep_last_of_each_key();
    return map;
  }

  // The inputs or outputs are names of node arguments, which have their types.
  Result<void> add_ends(const char* key, const Table& graph, Slot slot) {
    const Tables list = TRY(graph.tables(slot));
    if (list.size() > kMaxInlineList)
      return add(model_.metadata, key, fmt::format("{} values, too many to be shown", list.size()));
    std::vector<std::string> names;
    for (uint64_t i = 0; i < list.size(); ++i) {
      std::string name = TRY(text_at(list.position() + i * sizeof(uint32_t)));
      TRY_VOID(container_.budget->charge(Cost::kept, name.size()));
      names.push_back(std::move(name));
    }
    std::map<std::string, Map> described;
    for (const std::string& name : names) described[name].set("name", name);
    TRY_VOID(describe(graph, described));
    List ends;
    for (const std::string& name : names) {
      const Map& end = described[name];
      TRY_VOID(charge(footprint(end)));
      ends.emplace_back(end);
    }
    model_.metadata.append(key, std::move(ends));
    return {};
  }

  Result<std::string> text_at(uint64_t where) {
    const Tables bytes = TRY(Tables::at(buffer_, where, 1));
    if (bytes.size() > kMaxNameLength)
      return failure(Code::unsupported, fmt::format("a name of {} bytes, at most {}", bytes.size(), kMaxNameLength));
    TRY_VOID(buffer_.charge(Cost::input, bytes.size()));
    std::string text(static_cast<size_t>(bytes.size()), '\0');
    TRY_VOID(buffer_.copy(bytes.position(), std::as_writable_bytes(std::span(text))));
    return text;
  }

  // Adds the types of the node arguments with these names.
  Result<void> describe(const Table& graph, std::map<std::string, Map>& ends) {
    const Tables arguments = TRY(graph.tables(graph_slot::kNodeArgs));
    for (uint64_t i = 0; i < arguments.size() && !ends.empty(); ++i) {
      const Table argument = TRY(arguments.table(i));
      const std::string name = TRY(argument.text(value_slot::kName, kMaxNameLength));
      const auto end = ends.find(name);
      if (end == ends.end() || end->second.size() > 1) continue;
      const Table type = TRY(argument.table(value_slot::kType));
      TRY_VOID(describe_type(type, end->second));
    }
    return {};
  }

  // In the keys that the metadata of ONNX has.
  Result<void> describe_type(const Table& type, Map& end) {
    const auto kind = TRY(type.number<uint8_t>(type_slot::kKind));
    if (kind == type_slot::kSequence) end.append("kind", "sequence");
    if (kind == type_slot::kMap) end.append("kind", "map");
    if (kind != type_slot::kTensor) return {};
    const Table tensor = TRY(type.table(type_slot::kValue));
    const auto element = TRY(tensor.number<int32_t>(tensor_type_slot::kElement));
    const DType* const dtype = dtype_of(onnx::kElementTypes.find(element));
    end.append("dtype", dtype == &kUnknownDType ? onnx::kElementTypes.name(element) : std::string(dtype->name));
    const Table shape = TRY(tensor.table(tensor_type_slot::kShape));
    if (!shape.exists()) return {};
    const Tables dimensions = TRY(shape.tables(0));
    if (dimensions.size() > kMaxDimensions) return {};
    List sizes;
    for (uint64_t i = 0; i < dimensions.size(); ++i) {
      const Table dimension = TRY(dimensions.table(i));
      Value size = TRY(describe_dimension(dimension));
      TRY_VOID(charge(size));
      sizes.push_back(std::move(size));
    }
    end.append("shape", std::move(sizes));
    return {};
  }

  // A size, the name of one, or null.
  Result<Value> describe_dimension(const Table& dimension) {
    const Table value = TRY(dimension.table(dimension_slot::kValue));
    const auto kind = TRY(value.number<int8_t>(dimension_slot::kKind));
    if (kind == dimension_slot::kIsNumber) return Value(TRY(value.number<int64_t>(dimension_slot::kNumber)));
    if (kind == dimension_slot::kIsParameter) return Value(TRY(value.text(dimension_slot::kParameter, kMaxNameLength)));
    return Value();
  }

  const Container& container_;
  flatbuffer::Buffer buffer_;
  Model model_;
  GraphReader graphs_;
};

}  // namespace
}  // namespace ort

Match matches_ort(const Probe& probe) {
  if (probe.head.size() < ort::kIdentifierOffset) return Match::no;
  return probe.head.substr(ort::kIdentifierOffset).starts_with(ort::kIdentifier) ? Match::yes : Match::no;
}

Result<Model> read_ort(const Container& container) { return ort::ModelReader(container).read(); }

}  // namespace weightfs
