#include "formats/tensorflow/graph.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/text.h"
#include "formats/code/operators.h"
#include "formats/common/limits.h"
#include "formats/tensorflow/fields.h"
#include "formats/tensorflow/signatures.h"

namespace weightfs::tensorflow {
namespace {

// Further operators are counted together.
constexpr size_t kMaxOperators = 1024;

// The node of a set of names, besides the name.
constexpr uint64_t kNameNode = 64;

constexpr std::array<std::string_view, 3> kPlaceholders = {"Placeholder", "PlaceholderV2", "PlaceholderWithDefault"};

// ResourceVariable and RefVariable of TensorFlow; others, such as tables, have no values in a checkpoint.
constexpr std::array<std::string_view, 3> kVariableOperators = {"VarHandleOp", "VariableV2", "Variable"};

bool is_variable(std::string_view op) { return std::ranges::find(kVariableOperators, op) != kVariableOperators.end(); }

bool is_placeholder(std::string_view op) { return std::ranges::find(kPlaceholders, op) != kPlaceholders.end(); }

uint64_t size_of(const Message& message) {
  uint64_t size = 0;
  for (const protobuf::Range& range : message.ranges) size += range.size();
  return size;
}

}  // namespace

Result<void> GraphReader::read(const Message& graph, Constants constants) {
  constants_ = constants;
  ++graphs_;
  Fields fields(scanner_, graph);
  while (const auto field = TRY(fields.next())) {
    if (field->tag != graph::kNode && field->tag != graph::kLibrary) continue;
    const Message child = TRY(scanner_.child(graph, *field));
    TRY_VOID(field->tag == graph::kNode ? node(child, "") : library(child));
  }
  return {};
}

Result<void> GraphReader::library(const Message& library) {
  Fields fields(scanner_, library);
  while (const auto field = TRY(fields.next())) {
    if (field->tag != library::kFunction) continue;
    const Message child = TRY(scanner_.child(library, *field));
    TRY_VOID(function(child));
  }
  return {};
}

Result<void> GraphReader::function(const Message& function) {
  ++functions_;
  const Message signature = TRY(scanner_.message_at(function, function::kSignature));
  const std::string name = TRY(scanner_.text_at(signature, op::kName, kMaxNameLength));
  Fields fields(scanner_, function);
  while (const auto field = TRY(fields.next())) {
    if (field->tag != function::kNode) continue;
    const Message child = TRY(scanner_.child(function, *field));
    TRY_VOID(node(child, name));
  }
  return {};
}

// `function`: that it is in, or "".
Result<void> GraphReader::node(const Message& node, const std::string& function) {
  const NodeNames names = TRY(read_node(scanner_, node));
  if (!names.are_valid()) return failure(Code::corrupt, fmt::format("node {} has no name or no operator", nodes_));
  TRY_VOID(count(names.op));
  code::add_tensorflow(names.op, "", code_);
  if (names.op == "PrintV2") TRY_VOID(note_printed(node));
  if (function.empty()) TRY_VOID(main_node(node, names));
  if (names.op != "Const") return {};
  TRY_VOID(scanner_.charge(Cost::input, function.size()));
  return constant(node, function.empty() ? names.name : fmt::format("{}/{}", function, names.name));
}

// Whether it prints to a file.
Result<void> GraphReader::note_printed(const Message& node) {
  const Message stream = TRY(attribute_of(scanner_, node, "output_stream"));
  const std::string where = TRY(scanner_.text_at(stream, attribute::kText, kMaxNameLength));
  code::add_printing_to(where, "", code_);
  return {};
}

Result<void> GraphReader::count(const std::string& op) {
  ++nodes_;
  const bool is_known = operators_.contains(op) || operators_.size() < kMaxOperators;
  const auto [row, is_new] = operators_.try_emplace(is_known ? op : "others");
  ++row->second;
  if (!is_new) return {};
  TRY_VOID(scanner_.charge(Cost::value, 2));
  return scanner_.charge(Cost::kept, row->first.size());
}

// The ends of the graph.
Result<void> GraphReader::main_node(const Message& node, const NodeNames& names) {
  has_variables_ = has_variables_ || is_variable(names.op);
  const bool is_input = is_placeholder(names.op);
  if (is_input) TRY_VOID(placeholder(node, names.name));
  if (!is_input && names.op != "Const" && names.op != "NoOp") {
    TRY_VOID(scanner_.charge(Cost::kept, sizeof(std::string) + names.name.size()));
    ends_.push_back(names.name);
  }
  Fields fields(scanner_, node);
  while (const auto field = TRY(fields.next())) {
    if (field->tag != node::kInput) continue;
    const std::string input = TRY(scanner_.text(field->bytes, kMaxNameLength));
    const auto [name, is_new] = used_.emplace(node_of_input(input));
    if (is_new) TRY_VOID(scanner_.charge(Cost::kept, kNameNode + name->size()));
  }
  return {};
}

Result<void> GraphReader::placeholder(const Message& node, const std::string& name) {
  if (inputs_.size() == kMaxInlineList) return {};
  Charges charges(*file_.budget);
  const Message type = TRY(attribute_of(scanner_, node, "dtype"));
  const Message value = TRY(attribute_of(scanner_, node, "shape"));
  const Message shape = TRY(scanner_.message_at(value, attribute::kShape));
  uint64_t number = 0;
  Fields fields(scanner_, type);
  while (const auto field = TRY(fields.next()))
    if (field->tag == attribute::kType) number = field->value;
  Map input = TRY(describe_value(scanner_, {name, number, shape}, charges));
  inputs_.emplace_back(std::move(input));
  charges.keep();
  return {};
}

// The tensor in the attribute `value`.
Result<void> GraphReader::constant(const Message& node, std::string name) {
  const Message value = TRY(attribute_of(scanner_, node, "value"));
  Message message = TRY(scanner_.message_at(value, attribute::kTensor));
  if (message.absent()) {
    warnings_.miss_tensors(1, Code::corrupt, "constant {}: no value; omitted", quoted(name));
    return {};
  }
  if (constants_ == Constants::large && size_of(message) < kLargeConstant) return {};
  if (name.size() > kMaxNameLength) {
    warnings_.miss_tensors(1, Code::unsupported, "constant {}: its name has {} bytes; omitted", quoted(name),
                           name.size());
    return {};
  }
  TRY_VOID(scanner_.charge(Cost::tensor, 1));
  TRY_VOID(scanner_.charge(Cost::kept, kNameNode + 2 * name.size()));
  if (const auto [known, is_new] = names_.try_emplace(name, graphs_); known->second != graphs_) return {};
  const StoredTensor stored = TRY(read_tensor(scanner_, std::move(message)));
  Tensor tensor{.name = std::move(name),
                .dtype = &kUnknownDType,
                .stored_dtype = {},
                .scope = {},
                .shape = stored.shape.shown(),
                .source = {}};
  TRY_VOID(scanner_.charge(Cost::kept, sizeof(uint64_t) * tensor.shape.size()));
  const auto found = values(stored, tensor);
  if (!found && !is_about_the_bytes(found.error())) return found;
  if (!found)
    warnings_.refuse(found.error().code, "tensor {}: {}: refused", quoted(tensor.name), found.error().message);
  out_.tensors.push_back(tensor);
  return {};
}

Result<void> GraphReader::values(const StoredTensor& stored, Tensor& tensor) {
  const ElementType* const type = find_type(stored.data_type);
  if (type == nullptr) return failure(Code::corrupt, fmt::format("type {}", type_name(stored.data_type)));
  tensor.dtype = dtype_of(type);
  tensor.stored_dtype = type->name;
  if (type->dtype.empty()) return failure(Code::unsupported, fmt::format("values of type {}", type->name));
  const Shape shape = TRY(stored.shape.known());
  tensor.source = TRY(values_of(stored, *type, shape, scanner_, file_));
  if (!type->is_text()) return {};
  TRY_VOID(scanner_.charge(Cost::value, 2));  // its entry in the map of strings
  out_.per_tensor.edit().strings.emplace(
      out_.tensors.size(), protobuf::strings_of(file_.bytes, stored.message, stored.strings, file_.budget));
  return {};
}

Map GraphReader::facts() const {
  Map operators;
  for (const auto& [name, count] : operators_) operators.append(name, count);
  Map out;
  out.append("nodes", nodes_);
  out.append("functions", functions_);
  out.append("operators", std::move(operators));
  return out;
}

Result<List> GraphReader::outputs() {
  List out;
  for (std::string& name : ends_) {
    if (used_.contains(name) || out.size() == kMaxInlineList) continue;
    TRY_VOID(scanner_.charge(Cost::value, 3));
    Map output;
    output.append("name", std::move(name));
    out.emplace_back(std::move(output));
  }
  return out;
}

}  // namespace weightfs::tensorflow
