#include "formats/ort/graph.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "formats/code/operators.h"
#include "formats/common/limits.h"
#include "formats/onnx/types.h"
#include "formats/ort/texts.h"

namespace weightfs::ort {
namespace {

using Tables = flatbuffer::List;
using flatbuffer::Slot;
using flatbuffer::Table;

// Further operators are counted together.
constexpr size_t kMaxCounted = 1024;

// ort.fbs, https://github.com/microsoft/onnxruntime/blob/main/onnxruntime/core/flatbuffers/schema/ort.fbs
namespace graph_slot {
constexpr Slot kInitializers = 0, kNodes = 2, kSparseInitializers = 7;
}
namespace node_slot {
constexpr Slot kName = 0, kDomain = 2, kOpType = 5, kProvider = 7, kInputs = 8, kOutputs = 9, kAttributes = 10;
}
namespace attribute_slot {
constexpr Slot kName = 0, kInt = 4, kTensor = 6, kGraph = 7, kTensors = 11, kGraphs = 12;
}
namespace tensor_slot {
constexpr Slot kName = 0, kDims = 2, kType = 3, kRawData = 4, kStringData = 5, kExternalOffset = 6;
}
namespace sparse_slot {
constexpr Slot kValues = 0, kIndices = 1;
}

Result<Shape> shape_of(const Table& tensor) {
  const Tables dims = TRY(tensor.list(tensor_slot::kDims, sizeof(int64_t)));
  Shape shape;
  for (const int64_t size : TRY(dims.numbers<int64_t>(kMaxDimensions))) {
    if (size < 0) return failure(Code::corrupt, fmt::format("dimension {}", size));
    shape.push_back(static_cast<uint64_t>(size));
  }
  return shape;
}

}  // namespace

Result<void> GraphReader::graph(const Table& graph, const std::string& scope, int depth) {
  if (depth > kMaxDepth) return failure(Code::corrupt, fmt::format("graphs nested deeper than {}", kMaxDepth));
  ++graphs_;
  TRY_VOID(container_.budget->charge(Cost::input, scope.size()));
  const Tables initializers = TRY(graph.tables(graph_slot::kInitializers));
  for (uint64_t i = 0; i < initializers.size(); ++i) {
    const Table each = TRY(initializers.table(i));
    TRY_VOID(tensor(each, "", scope));
  }
  const Tables sparse_initializers = TRY(graph.tables(graph_slot::kSparseInitializers));
  for (uint64_t i = 0; i < sparse_initializers.size(); ++i) {
    const Table each = TRY(sparse_initializers.table(i));
    TRY_VOID(sparse(each, scope));
  }
  const Tables nodes = TRY(graph.tables(graph_slot::kNodes));
  for (uint64_t i = 0; i < nodes.size(); ++i) {
    const Table each = TRY(nodes.table(i));
    TRY_VOID(node(each, scope, depth));
  }
  return {};
}

Result<void> GraphReader::node(const Table& node, const std::string& scope, int depth) {
  const std::string domain = TRY(node.text(node_slot::kDomain, kMaxNameLength));
  const std::string type = TRY(node.text(node_slot::kOpType, kMaxNameLength));
  ++nodes_;
  std::string op = fmt::format("{}{}{}", domain, domain.empty() ? "" : ".", type);
  if (code::is_custom_onnx(domain, type)) code::add_custom_operator(op, code_);
  TRY_VOID(count(operators_, std::move(op)));
  std::string provider = TRY(node.text(node_slot::kProvider, kMaxNameLength));
  if (!provider.empty()) TRY_VOID(count(providers_, std::move(provider)));
  if (onnx::may_use_packed_weights(type)) TRY_VOID(packed_weights(node, type, scope));
  const Tables attributes = TRY(node.tables(node_slot::kAttributes));
  if (attributes.size() == 0) return {};
  std::string label = TRY(node.text(node_slot::kName, kMaxNameLength));
  if (label.empty()) label = type;
  for (uint64_t i = 0; i < attributes.size(); ++i) {
    const Table each = TRY(attributes.table(i));
    TRY_VOID(attribute(each, label, scope, depth));
  }
  return {};
}

Result<void> GraphReader::packed_weights(const Table& node, const std::string& type, const std::string& scope) {
  onnx::PackingAttributes packing;
  const Tables attributes = TRY(node.tables(node_slot::kAttributes));
  for (uint64_t i = 0; i < attributes.size(); ++i) {
    const Table each = TRY(attributes.table(i));
    const std::string name = TRY(each.text(attribute_slot::kName, kMaxNameLength));
    const int64_t value = TRY(each.number<int64_t>(attribute_slot::kInt));
    if (value > 0) onnx::set_attribute(name, static_cast<uint64_t>(value), packing);
  }
  const Tables names = TRY(node.tables(node_slot::kInputs));
  std::vector<std::string> inputs;
  for (uint64_t i = 0; i < std::min<uint64_t>(names.size(), onnx::kMaxPackedInputs); ++i)
    inputs.push_back(TRY(names.text(i, kMaxNameLength)));
  const auto outputs = TRY(node.tables(node_slot::kOutputs));
  std::string output;
  if (outputs.size() > 0) output = TRY(outputs.text(0, kMaxNameLength));
  return packed_.add({type, std::move(inputs), std::move(output), scope, packing}, *container_.budget);
}

Result<void> GraphReader::attribute(const Table& attribute, const std::string& node, const std::string& scope,
                                    int depth) {
  const Table one_tensor = TRY(attribute.table(attribute_slot::kTensor));
  const Table one_graph = TRY(attribute.table(attribute_slot::kGraph));
  const Tables tensors = TRY(attribute.tables(attribute_slot::kTensors));
  const Tables graphs = TRY(attribute.tables(attribute_slot::kGraphs));
  if (!one_tensor.exists() && !one_graph.exists() && tensors.size() == 0 && graphs.size() == 0) return {};
  const std::string name = TRY(attribute.text(attribute_slot::kName, kMaxNameLength));
  const std::string below = fmt::format("{}{}{}/{}", scope, scope.empty() ? "" : "/", node, name);
  if (one_tensor.exists()) TRY_VOID(tensor(one_tensor, fmt::format("{}.{}", node, name), scope));
  if (one_graph.exists()) TRY_VOID(graph(one_graph, below, depth + 1));
  for (uint64_t i = 0; i < tensors.size(); ++i) {
    const Table each = TRY(tensors.table(i));
    TRY_VOID(tensor(each, fmt::format("{}.{}.{}", node, name, i), scope));
  }
  for (uint64_t i = 0; i < graphs.size(); ++i) {
    const Table each = TRY(graphs.table(i));
    TRY_VOID(graph(each, fmt::format("{}.{}", below, i), depth + 1));
  }
  return {};
}

// The values, and the indices of the values.
Result<void> GraphReader::sparse(const Table& sparse, const std::string& scope) {
  const Table values = TRY(sparse.table(sparse_slot::kValues));
  const Table indices = TRY(sparse.table(sparse_slot::kIndices));
  const std::string name = TRY(values.text(tensor_slot::kName, kMaxNameLength));
  TRY_VOID(tensor(values, "", scope));
  return tensor(indices, name + ".indices", scope);
}

// `name` is that of a tensor without one.
Result<void> GraphReader::tensor(const Table& stored, const std::string& name, const std::string& scope) {
  Budget& budget = *container_.budget;
  const auto type = TRY(stored.number<int32_t>(tensor_slot::kType));
  Tensor tensor;
  tensor.name = TRY(stored.text(tensor_slot::kName, kMaxNameLength));
  if (tensor.name.empty()) tensor.name = name;
  tensor.dtype = dtype_of(onnx::kElementTypes.find(type));
  tensor.stored_dtype = TRY(spellings_.add(onnx::kElementTypes.name(type), budget));
  tensor.scope = TRY(spellings_.add(scope, budget));
  auto shape = shape_of(stored);
  if (!shape && !is_about_the_bytes(shape.error())) return tl::unexpected(shape.error());
  if (shape) tensor.shape = *shape;
  auto bytes = !shape                      ? tl::unexpected(shape.error())
               : type == onnx::kStringType ? texts(stored, tensor)
                                           : values(stored, tensor);
  if (!bytes && !is_about_the_bytes(bytes.error())) return tl::unexpected(bytes.error());
  if (bytes)
    tensor.source = std::move(*bytes);
  else
    warnings_.refuse(bytes.error().code, "tensor {}{}: {}: refused", quoted(tensor.name),
                     scope.empty() ? "" : fmt::format(" in {}", quoted(scope)), bytes.error().message);
  TRY_VOID(budget.charge(Cost::tensor));
  TRY_VOID(budget.charge(Cost::kept, tensor.name.size() + sizeof(uint64_t) * tensor.shape.size()));
  TRY_VOID(budget.charge(Cost::input, scope.size()));
  out_.tensors.push_back(tensor);
  return {};
}

// The bytes in the FlatBuffer: an empty tensor has none.
Result<Slice> GraphReader::values(const Table& stored, const Tensor& tensor) {
  const auto external = TRY(stored.number<int64_t>(tensor_slot::kExternalOffset, -1));
  if (external >= 0) return failure(Code::unsupported, "its bytes are in the file of a training checkpoint");
  const Tables raw = TRY(stored.list(tensor_slot::kRawData, 1));
  if (tensor.dtype == &kUnknownDType)
    warnings_.add("tensor {}: type {} is unknown; shown as bytes", quoted(tensor.name), tensor.stored_dtype);
  else if (const auto size = size_in_bytes(*tensor.dtype, tensor.shape); size != raw.size())
    return failure(Code::corrupt, fmt::format("{} bytes, but its shape and type {} {}", raw.size(), tensor.stored_dtype,
                                              size ? fmt::format("need {}", *size) : "overflow 64 bits"));
  return slice(container_.bytes, raw.position(), raw.size());
}

Result<Slice> GraphReader::texts(const Table& stored, const Tensor& tensor) {
  const Tables list = TRY(stored.tables(tensor_slot::kStringData));
  if (elements_of(tensor.shape) != list.size())
    return failure(Code::corrupt, fmt::format("{} texts, which is not the number of its shape", list.size()));
  const Texts texts{list.position(), list.size()};
  const uint64_t size = TRY(size_of_lines(buffer_, texts));
  TRY_VOID(container_.budget->charge(Cost::value, 2));  // its entry in the map of strings
  out_.per_tensor.edit().strings.emplace(out_.tensors.size(), strings_of(container_.bytes, texts, container_.budget));
  return slice(string_lines(container_.bytes, texts, size, container_.budget), 0, size);
}

Result<void> GraphReader::count(Counts& counts, std::string name) {
  if (!counts.contains(name) && counts.size() >= kMaxCounted) name = "others";
  const auto [row, is_new] = counts.try_emplace(std::move(name));
  ++row->second;
  if (!is_new) return {};
  TRY_VOID(container_.budget->charge(Cost::value, 2));
  return container_.budget->charge(Cost::kept, row->first.size());
}

void GraphReader::finish() {
  const auto to_map = [](const Counts& counts) {
    Map map;
    for (const auto& [name, count] : counts) map.append(name, count);
    return map;
  };
  out_.metadata.append("graphs", graphs_);
  out_.metadata.append("nodes", nodes_);
  out_.metadata.append("operators", to_map(operators_));
  if (!providers_.empty()) out_.metadata.append("execution_providers", to_map(providers_));
  std::move(code_).move_to(out_.common);
  packed_.finish(out_);
  std::move(warnings_).move_to(out_);
}

}  // namespace weightfs::ort
