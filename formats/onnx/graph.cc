#include "formats/onnx/graph.h"

#include <fmt/core.h>

#include "base/text.h"
#include "formats/code/operators.h"
#include "formats/common/limits.h"
#include "formats/onnx/fields.h"
#include "formats/onnx/value_info.h"
#include "formats/protobuf/dimensions.h"

namespace weightfs::onnx {
namespace {

using protobuf::NumbersField;
using protobuf::NumbersLayout;

// Further operators are counted together: a model has fewer than 200.
constexpr size_t kMaxOperators = 1024;

// A node of a set, besides the text.
constexpr uint64_t kSetNode = 64;

}  // namespace

Result<void> GraphReader::graph(const Message& graph, const std::string& scope) {
  ++graphs_;
  TRY_VOID(container_.budget->charge(Cost::input, scope.size()));
  return nodes_and_tensors(graph, scope);
}

Result<void> GraphReader::nodes_and_tensors(const Message& graph, const std::string& scope) {
  Fields fields(scanner_, graph);
  while (const auto field = TRY(fields.next())) {
    if (field->tag == graph::kValueInfo) TRY_VOID(check_value(graph, *field));
    if (field->tag != graph::kNode && field->tag != graph::kInitializer && field->tag != graph::kSparseInitializer)
      continue;
    Message child = TRY(scanner_.child(graph, *field));
    if (field->tag == graph::kNode) TRY_VOID(node(child, scope));
    if (field->tag == graph::kSparseInitializer) TRY_VOID(sparse(child, "", scope));
    if (field->tag == graph::kInitializer) TRY_VOID(initializer(std::move(child), scope));
  }
  return {};
}

// Only graph.json shows the values between nodes, but one that cannot be described refuses the whole file.
Result<void> GraphReader::check_value(const Message& graph, const Field& field) {
  Charges charges(*container_.budget);  // released at the end
  const Message child = TRY(scanner_.child(graph, field));
  const auto described = describe_value(scanner_, child, charges);
  return described ? Result<void>() : tl::unexpected(described.error());
}

Result<void> GraphReader::function(const Message& function) {
  const std::string name = TRY(scanner_.text_at(function, function::kName, kMaxNameLength));
  const std::string domain = TRY(scanner_.text_at(function, function::kDomain, kMaxNameLength));
  const std::string scope = fmt::format("functions/{}{}{}", domain, domain.empty() ? "" : ".", name);
  const NodeNames itself{name, "", "", domain};
  TRY_VOID(container_.budget->charge(Cost::kept, kSetNode + domain.size() + name.size()));
  functions_.insert(fmt::format("{}.{}", domain, name));
  TRY_VOID(container_.budget->charge(Cost::input, scope.size()));
  Fields fields(scanner_, function);
  while (const auto field = TRY(fields.next())) {
    if (field->tag != function::kNode && field->tag != function::kAttributeProto) continue;
    const Message child = TRY(scanner_.child(function, *field));
    TRY_VOID(field->tag == function::kNode ? node(child, scope) : attribute(child, itself, scope));
  }
  return {};
}

Result<void> GraphReader::training(const Message& training, uint64_t index) {
  const std::string scope = fmt::format("training_info.{}", index);
  const Message initialization = TRY(scanner_.message_at(training, training::kInitialization));
  const Message algorithm = TRY(scanner_.message_at(training, training::kAlgorithm));
  if (!initialization.absent()) TRY_VOID(graph(initialization, scope + "/initialization"));
  if (!algorithm.absent()) TRY_VOID(graph(algorithm, scope + "/algorithm"));
  return {};
}

Result<void> GraphReader::node(const Message& node, const std::string& scope) {
  const NodeNames names = TRY(read_node(scanner_, node));
  TRY_VOID(count_operator(names));
  if (may_use_packed_weights(names.op_type)) TRY_VOID(packed_weights(node, names, scope));
  Fields fields(scanner_, node);
  while (const auto field = TRY(fields.next())) {
    if (field->tag != node::kAttribute) continue;
    const Message child = TRY(scanner_.child(node, *field));
    TRY_VOID(attribute(child, names, scope));
  }
  return {};
}

Result<void> GraphReader::packed_weights(const Message& node, const NodeNames& names, const std::string& scope) {
  std::vector<std::string> inputs;
  PackingAttributes attributes;
  Fields fields(scanner_, node);
  while (const auto field = TRY(fields.next())) {
    if (field->tag == node::kInput && inputs.size() < kMaxPackedInputs)
      inputs.push_back(TRY(scanner_.text(field->bytes, kMaxNameLength)));
    if (field->tag != node::kAttribute) continue;
    const Message child = TRY(scanner_.child(node, *field));
    const std::string name = TRY(scanner_.text_at(child, attribute::kName, kMaxNameLength));
    Fields values(scanner_, child);
    while (const auto value = TRY(values.next()))
      if (value->tag == attribute::kInt) set_attribute(name, value->value, attributes);
  }
  return packed_.add({names.op_type, std::move(inputs), names.first_output, scope, attributes}, *container_.budget);
}

Result<void> GraphReader::count_operator(const NodeNames& node) {
  ++nodes_;
  std::string name = fmt::format("{}{}{}", node.domain, node.domain.empty() ? "" : ".", node.op_type);
  if (code::is_custom_onnx(node.domain, node.op_type) && !custom_.contains(name)) {
    TRY_VOID(container_.budget->charge(Cost::kept, kSetNode + name.size()));
    custom_.insert(name);
  }
  if (!operators_.contains(name) && operators_.size() >= kMaxOperators) name = "others";
  const auto [row, is_new] = operators_.try_emplace(std::move(name));
  ++row->second;
  if (!is_new) return {};
  TRY_VOID(container_.budget->charge(Cost::value, 2));
  return container_.budget->charge(Cost::kept, row->first.size());
}

Result<void> GraphReader::attribute(const Message& attribute, const NodeNames& node, const std::string& scope) {
  std::string name = TRY(scanner_.text_at(attribute, attribute::kName, kMaxNameLength));
  const AttributeContext context{node, scope, std::move(name)};
  if (node.is_constant()) TRY_VOID(constant_value(attribute, context));
  Message tensor_message;
  Message graph_message;
  Message sparse_message;
  uint64_t index = 0;
  Fields fields(scanner_, attribute);
  while (const auto field = TRY(fields.next())) {
    if (field->tag == attribute::kTensor) TRY_VOID(scanner_.merge(tensor_message, attribute, *field));
    if (field->tag == attribute::kGraph) TRY_VOID(scanner_.merge(graph_message, attribute, *field));
    if (field->tag == attribute::kSparseTensor) TRY_VOID(scanner_.merge(sparse_message, attribute, *field));
    TRY_VOID(attribute_field(attribute, *field, context, index));
    if (field->tag == attribute::kTensors || field->tag == attribute::kGraphs ||
        field->tag == attribute::kSparseTensors)
      ++index;
  }
  if (!tensor_message.absent()) TRY_VOID(attribute_tensor(std::move(tensor_message), context, ""));
  if (!graph_message.absent()) TRY_VOID(subgraph(graph_message, context, ""));
  if (!sparse_message.absent()) TRY_VOID(sparse(sparse_message, attribute_name(context), scope));
  return {};
}

// An element of a list of tensors or graphs.
Result<void> GraphReader::attribute_field(const Message& attribute, const Field& field, const AttributeContext& context,
                                          uint64_t index) {
  if (field.tag != attribute::kTensors && field.tag != attribute::kGraphs && field.tag != attribute::kSparseTensors)
    return {};
  Message child = TRY(scanner_.child(attribute, field));
  const std::string suffix = fmt::format(".{}", index);
  if (field.tag == attribute::kTensors) return attribute_tensor(std::move(child), context, suffix);
  if (field.tag == attribute::kGraphs) return subgraph(child, context, suffix);
  return sparse(child, attribute_name(context) + suffix, context.scope);
}

// A Constant is known by its output.
std::string GraphReader::attribute_name(const AttributeContext& context) {
  if (context.node.is_constant()) return context.node.first_output;
  return fmt::format("{}.{}", context.node.label(), context.name);
}

Result<void> GraphReader::subgraph(const Message& message, const AttributeContext& context, const std::string& suffix) {
  return graph(message, fmt::format("{}{}{}/{}{}", context.scope, context.scope.empty() ? "" : "/",
                                    context.node.label(), context.name, suffix));
}

Result<void> GraphReader::attribute_tensor(Message message, const AttributeContext& context,
                                           const std::string& suffix) {
  StoredTensor stored = TRY(read_tensor(scanner_, std::move(message)));
  if (context.node.is_constant() || stored.name.empty()) stored.name = attribute_name(context) + suffix;
  return tensor(std::move(stored), context.scope);
}

// A value of a Constant that is not a TensorProto becomes one.
Result<void> GraphReader::constant_value(const Message& attribute, const AttributeContext& context) {
  if (context.name == "value_float" || context.name == "value_floats" || context.name == "value_int" ||
      context.name == "value_ints")
    return constant_numbers(attribute, context);
  if (context.name == "value_string" || context.name == "value_strings") return constant_strings(attribute, context);
  return {};
}

Result<void> GraphReader::constant_numbers(const Message& attribute, const AttributeContext& context) {
  const bool is_list = context.name.ends_with('s');
  const bool is_float = context.name.starts_with("value_float");
  const uint32_t number = is_list ? (is_float ? attribute::kFloats : attribute::kInts)
                                  : (is_float ? attribute::kFloat >> 3 : attribute::kInt >> 3);
  const NumbersField field{attribute, number, is_float ? WireType::fixed32 : WireType::varint};
  const uint64_t count = TRY(protobuf::count_numbers(scanner_, field));
  if (!is_list && count != 1) {
    warnings_.miss_tensors(1, Code::corrupt, "constant {}: {} values in {}; omitted", quoted(context.node.first_output),
                           count, context.name);
    return {};
  }
  Tensor tensor{.name = context.node.first_output,
                .dtype = dtype_named(is_float ? "float32" : "int64"),
                .stored_dtype = is_float ? "FLOAT" : "INT64",
                .scope = {},
                .shape = is_list ? Shape{count} : Shape{},
                .source = {}};
  const uint32_t width = is_float ? 4 : 8;
  tensor.scope = TRY(spellings_.add(context.scope, *container_.budget));
  tensor.source = TRY(slice(protobuf::number_bytes(container_.bytes, field, count, width), 0, count * width));
  return add(std::move(tensor));
}

Result<void> GraphReader::constant_strings(const Message& attribute, const AttributeContext& context) {
  StoredTensor stored;
  stored.name = context.node.first_output;
  stored.message = attribute;
  stored.data_type = kStringType;
  const bool is_list = context.name == "value_strings";
  stored.strings.tag = is_list ? attribute::kStrings : attribute::kString;
  Fields fields(scanner_, attribute);
  while (const auto field = TRY(fields.next()))
    if (field->tag == stored.strings.tag) stored.strings.add(field->bytes);
  if (is_list) stored.shape = {stored.strings.count};
  return tensor(std::move(stored), context.scope);
}

// The values, named `name` or as they are, and the indices of the values.
Result<void> GraphReader::sparse(const Message& message, const std::string& name, const std::string& scope) {
  Message values_message;
  Message indices_message;
  Shape dims;
  std::optional<std::string> problem;
  Fields fields(scanner_, message);
  while (const auto field = TRY(fields.next())) {
    if (field->tag == sparse::kValues) TRY_VOID(scanner_.merge(values_message, message, *field));
    if (field->tag == sparse::kIndices) TRY_VOID(scanner_.merge(indices_message, message, *field));
    if (field->tag == varint(sparse::kDims) || field->tag == bytes(sparse::kDims))
      TRY_VOID(read_dimensions(scanner_, *field, dims, problem));
  }
  StoredTensor values = TRY(read_tensor(scanner_, std::move(values_message)));
  StoredTensor indices = TRY(read_tensor(scanner_, std::move(indices_message)));
  if (!name.empty()) values.name = name;
  indices.name = values.name + ".indices";
  if (sparse_.size() < kMaxInlineList) {
    TRY_VOID(container_.budget->charge(Cost::value, 5 + dims.size()));
    TRY_VOID(container_.budget->charge(Cost::kept, values.name.size()));
    Map entry;
    entry.append("name", values.name);
    List sizes;
    for (const uint64_t size : dims) sizes.emplace_back(size);
    entry.append("dims", std::move(sizes));
    sparse_.emplace_back(std::move(entry));
  }
  if (problem) warnings_.add("sparse tensor {}: {}", quoted(values.name), *problem);
  TRY_VOID(tensor(std::move(values), scope));
  return tensor(std::move(indices), scope);
}

Result<void> GraphReader::initializer(Message message, const std::string& scope) {
  StoredTensor stored = TRY(read_tensor(scanner_, std::move(message)));
  return tensor(std::move(stored), scope);
}

Result<void> GraphReader::tensor(StoredTensor stored, const std::string& scope) {
  Tensor tensor{.name = stored.name,
                .dtype = dtype_of(kElementTypes.find(stored.data_type)),
                .stored_dtype = {},
                .scope = {},
                .shape = stored.shape,
                .source = {}};
  tensor.stored_dtype = TRY(spellings_.add(kElementTypes.name(stored.data_type), *container_.budget));
  tensor.scope = TRY(spellings_.add(scope, *container_.budget));
  TRY_VOID(values(stored, tensor));
  return add(std::move(tensor));
}

// Sets the bytes of a tensor, or refuses them with a warning.
Result<void> GraphReader::values(const StoredTensor& stored, Tensor& tensor) {
  if (stored.problem) {
    refuse(tensor, {Code::corrupt, *stored.problem});
    return {};
  }
  const auto size = size_in_bytes(*tensor.dtype, tensor.shape);
  Result<std::optional<Slice>> found = std::nullopt;
  if (!stored.is_external)
    found = inline_bytes(stored, container_.bytes, scanner_, countable_);
  else if (stored.data_type == kStringType || (!size && tensor.dtype != &kUnknownDType))
    found = failure(Code::corrupt, "external data of no known size");
  else
    found = files_.bytes(stored.place, size);
  if (!found && found.error().code == Code::resource) return tl::unexpected(found.error());
  if (!found) refuse(tensor, found.error());
  if (!found || !*found) return {};
  tensor.source = **std::move(found);
  if (tensor.dtype == &kUnknownDType)
    warnings_.add("tensor {}: type {} is unknown; shown as bytes", quoted(tensor.name), tensor.stored_dtype);
  if (stored.data_type != kStringType) return {};
  TRY_VOID(container_.budget->charge(Cost::value, 2));  // its entry in the map of strings
  out_.per_tensor.edit().strings.emplace(
      out_.tensors.size(), protobuf::strings_of(container_.bytes, stored.message, stored.strings, container_.budget));
  return {};
}

Result<void> GraphReader::add(Tensor tensor) {
  TRY_VOID(container_.budget->charge(Cost::tensor));
  TRY_VOID(container_.budget->charge(Cost::kept, tensor.name.size() + sizeof(uint64_t) * tensor.shape.size()));
  TRY_VOID(container_.budget->charge(Cost::input, tensor.scope.size()));  // it is read with each tensor
  out_.tensors.push_back(tensor);
  return {};
}

void GraphReader::refuse(const Tensor& tensor, const Error& error) {
  warnings_.refuse(error.code, "tensor {}{}: {}: refused", quoted(tensor.name),
                   tensor.scope.empty() ? "" : fmt::format(" in {}", quoted(tensor.scope)), error.message);
}

void GraphReader::finish() {
  Map operators;
  for (const auto& [name, count] : operators_) operators.append(name, count);
  out_.metadata.append("graphs", graphs_);
  out_.metadata.append("nodes", nodes_);
  out_.metadata.append("operators", std::move(operators));
  if (!sparse_.empty()) out_.metadata.append("sparse_tensors", std::move(sparse_));
  CodeList code;
  for (const std::string& name : custom_)
    if (!functions_.contains(name)) code::add_custom_operator(name, code);
  std::move(code).move_to(out_.common);
  packed_.finish(out_);
  files_.finish(out_, warnings_);
  std::move(warnings_).move_to(out_);
}

}  // namespace weightfs::onnx
