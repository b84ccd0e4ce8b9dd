#include "formats/openvino/structure.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/text.h"
#include "formats/code/operators.h"
#include "formats/common/limits.h"
#include "formats/openvino/info.h"
#include "formats/openvino/types.h"
#include "formats/openvino/xml.h"

namespace weightfs::openvino {
namespace {

constexpr size_t kMaxDims = 16 * 1024;  // characters of a port's dimensions

// The elements that are read, by where they are.
enum class Element : uint8_t {
  document,
  net,
  layers,
  layer,
  data,
  input,
  output,
  input_port,
  output_port,
  dim,
  blobs,
  blob,
  body,
  then_body,
  else_body,
  edges,
  edge,
  info,
  other,
};

struct Child {
  Element parent;
  std::string_view name;  // any, if it is empty
  Element element;
};

constexpr auto kChildren = std::to_array<Child>({
    {Element::document, "net", Element::net},
    {Element::net, "layers", Element::layers},
    {Element::net, "edges", Element::edges},
    {Element::net, "rt_info", Element::info},
    {Element::net, "meta_data", Element::info},
    {Element::net, "quantization_parameters", Element::info},
    {Element::info, "", Element::info},
    {Element::layers, "layer", Element::layer},
    {Element::edges, "edge", Element::edge},
    {Element::layer, "data", Element::data},
    {Element::layer, "input", Element::input},
    {Element::layer, "output", Element::output},
    {Element::layer, "blobs", Element::blobs},
    {Element::layer, "weights", Element::blob},  // IR 2
    {Element::layer, "biases", Element::blob},
    {Element::layer, "body", Element::body},
    {Element::layer, "then_body", Element::then_body},
    {Element::layer, "else_body", Element::else_body},
    {Element::body, "layers", Element::layers},
    {Element::then_body, "layers", Element::layers},
    {Element::else_body, "layers", Element::layers},
    {Element::blobs, "", Element::blob},
    {Element::input, "port", Element::input_port},
    {Element::output, "port", Element::output_port},
    {Element::input_port, "dim", Element::dim},
    {Element::output_port, "dim", Element::dim},
});

bool is_body(Element element) {
  return element == Element::body || element == Element::then_body || element == Element::else_body;
}

// Whether OpenVINO reads only the first child of this kind.
bool is_read_once(Element element) {
  constexpr auto kOnce =
      std::to_array({Element::layers, Element::data, Element::input, Element::output, Element::blobs, Element::edges});
  return is_body(element) || std::ranges::find(kOnce, element) != kOnce.end();
}

Element element_of(Element parent, std::string_view name) {
  for (const Child& child : kChildren)
    if (child.parent == parent && (child.name.empty() || child.name == name)) return child.element;
  return Element::other;
}

// A port: what an input or output of the model is called, and its type and dimensions.
struct Port {
  std::string name;  // the first of its names
  std::string type, dims;
};

// Weights of a layer of IR 2 to 7.
struct Blob {
  std::string name, type, offset, size;
};

// A layer that has begun.
struct Layer {
  std::string id, name, type, precision;
  std::string element_type, shape = "?", offset, size;  // of <data>
  uint64_t inputs = 0, outputs = 0;                     // how many ports
  Port input, output;                                   // the first ones
  std::vector<Blob> blobs;
};

std::string first_name(std::string_view names) { return std::string(names.substr(0, names.find(','))); }

std::string dtype_name(std::string_view type) {
  const DType* const dtype = dtype_of(type);
  return dtype == &kUnknownDType ? lower_case(type) : std::string(dtype->name);
}

// A dimension that is not a number is a text: "?", "1..8".
List shape_of(std::string_view dims) {
  List list;
  for (size_t begin = 0; !trimmed(dims).empty() && begin <= dims.size() && list.size() < kMaxDimensions;) {
    const size_t end = std::min(dims.find(',', begin), dims.size());
    const std::string_view text = trimmed(dims.substr(begin, end - begin));
    const auto number = parse_number<int64_t>(text);
    list.push_back(number && *number >= 0 ? Value(*number) : Value(number ? "?" : text));
    begin = end + 1;
  }
  return list;
}

Map end_of(const Port& port) {
  Map shown;
  shown.append("name", port.name);
  if (!port.type.empty()) shown.append("dtype", dtype_name(port.type));
  shown.append("shape", shape_of(port.dims));
  return shown;
}

class StructureReader final : public XmlEvents {
 public:
  StructureReader(Budget& budget, Tensors& tensors) : budget_(budget), tensors_(tensors), info_(budget) {}

  Result<void> begin(std::string_view name, const XmlAttributes& attributes) override {
    const Element parent = open_.empty() ? Element::document : open_.back().element;
    const Element element = element_of(parent, name);
    if (parent == Element::document && element != Element::net)
      return failure(Code::unsupported, fmt::format("XML with the root element {}, \"net\" expected", quoted(name)));
    if (!open_.empty() && is_read_once(element) && !open_.back().children.insert(element).second)
      return failure(Code::corrupt, fmt::format("<{}> twice in an element, of which OpenVINO reads the first", name));
    open_.push_back({element, {}});
    return begin(element, name, attributes);
  }

  Result<void> end() override {
    const Element element = open_.back().element;
    open_.pop_back();
    if (element == Element::info) info_.end();
    if (is_body(element)) scopes_.pop_back();
    if (element == Element::input_port || element == Element::output_port) port_ = nullptr;
    return element == Element::layer ? end_layer() : Result<void>();
  }

  Result<void> text(std::string_view piece) override {
    if (open_.back().element == Element::dim && port_ != nullptr && port_->dims.size() + piece.size() <= kMaxDims)
      port_->dims += piece;
    return {};
  }

  /// Sets the version and the metadata.
  Result<void> finish(Model& model, Warnings& warnings);

 private:
  Result<void> begin(Element element, std::string_view name, const XmlAttributes& attributes);
  Result<void> begin_layer(const XmlAttributes& attributes);
  Result<void> begin_body(std::string_view name);
  Result<void> begin_port(Element element, const XmlAttributes& attributes);
  Result<void> connect(const XmlAttributes& edge);
  Result<void> end_layer();
  Result<void> add_constants(const Layer& layer);
  Result<void> count(std::map<std::string, uint64_t, std::less<>>& counts, std::string_view name);
  Result<void> add_end(std::vector<Port>& ends, const Layer& layer, const Port& port);

  std::string_view scope() const { return scopes_.empty() ? std::string_view() : scopes_.back(); }

  Budget& budget_;
  Tensors& tensors_;
  InfoBuilder info_;
  struct Open {
    Element element;
    std::set<Element> children;  // those that are read once
  };

  std::vector<Open> open_;
  std::vector<Layer> layers_;        // those that are open: a layer may have bodies, which have layers
  std::vector<std::string> scopes_;  // of the bodies that are open
  Port* port_ = nullptr;             // that is open, in layers_.back(); null if it is not kept
  std::string name_, version_;
  bool has_layers_ = false;
  std::map<std::string, uint64_t, std::less<>> operators_, opsets_;
  CodeList code_;
  std::vector<Port> inputs_, outputs_;
  std::map<std::string, size_t, std::less<>> results_;         // places in outputs_, by the layer's id
  std::map<std::pair<std::string, std::string>, Port> ports_;  // of outputs, by the ids of layer and port
};

Result<void> StructureReader::begin(Element element, std::string_view name, const XmlAttributes& attributes) {
  switch (element) {
    case Element::net:
      name_ = attributes.text("name");
      version_ = attributes.text("version");
      return budget_.charge(Cost::kept, 2 * (name_.size() + version_.size()));
    case Element::layers:
      has_layers_ = true;
      return {};
    case Element::layer:
      return begin_layer(attributes);
    case Element::data: {
      Layer& layer = layers_.back();
      layer.element_type = attributes.text("element_type");
      if (attributes.has("shape")) layer.shape = attributes.text("shape");
      layer.offset = attributes.text("offset");
      layer.size = attributes.text("size");
      return {};
    }
    case Element::blob: {
      TRY_VOID(budget_.charge(Cost::value, 2));
      const auto text = [&](const char* key) { return std::string(attributes.text(key)); };
      layers_.back().blobs.push_back({std::string(name), text("precision"), text("offset"), text("size")});
      return {};
    }
    case Element::body:
    case Element::then_body:
    case Element::else_body:
      return begin_body(name);
    case Element::input_port:
    case Element::output_port:
      return begin_port(element, attributes);
    case Element::dim:
      if (port_ != nullptr && !port_->dims.empty()) port_->dims += ',';
      return {};
    case Element::edge:
      return connect(attributes);
    case Element::info:
      return info_.begin(name, attributes);
    default:
      return {};
  }
}

Result<void> StructureReader::begin_layer(const XmlAttributes& attributes) {
  const std::string_view name = attributes.text("name");
  if (name.size() > kMaxNameLength)
    return failure(Code::unsupported, fmt::format("a name of {} bytes, at most {}", name.size(), kMaxNameLength));
  Layer& layer = layers_.emplace_back();
  layer.id = attributes.text("id");
  layer.name = name;
  layer.type = attributes.text("type");
  layer.precision = attributes.text("precision");
  TRY_VOID(count(operators_, layer.type));
  if (!attributes.has("version")) return {};
  const std::string_view version = attributes.text("version");
  if (!code::is_of_openvino(version, layer.type))
    code::add_custom_operator(fmt::format("{}.{}", version, layer.type), code_);
  return count(opsets_, version);
}

Result<void> StructureReader::begin_body(std::string_view name) {
  std::string scope(this->scope());
  if (!scope.empty()) scope += '/';
  scope.append(layers_.back().name).append("/").append(name);
  TRY_VOID(budget_.charge(Cost::input, scope.size()));
  scopes_.push_back(std::move(scope));
  return {};
}

Result<void> StructureReader::begin_port(Element element, const XmlAttributes& attributes) {
  Layer& layer = layers_.back();
  const bool is_input = element == Element::input_port;
  const bool is_first = (is_input ? layer.inputs++ : layer.outputs++) == 0;
  Port port{first_name(attributes.text("names")), std::string(attributes.text("precision")), {}};
  if (!is_input && scopes_.empty() && !(port.name.empty() && port.type.empty())) {
    const std::string_view id = attributes.text("id");
    TRY_VOID(budget_.charge(Cost::value, 3));
    TRY_VOID(budget_.charge(Cost::kept, layer.id.size() + id.size() + port.name.size() + port.type.size()));
    ports_.try_emplace({layer.id, std::string(id)}, port);
  }
  if (!is_first) return {};
  port_ = is_input ? &layer.input : &layer.output;
  *port_ = std::move(port);
  return {};
}

// An output of the model has the name of the port that its layer gets its values from.
Result<void> StructureReader::connect(const XmlAttributes& edge) {
  const auto result = results_.find(edge.text("to-layer"));
  if (result == results_.end()) return {};
  const auto from = ports_.find({std::string(edge.text("from-layer")), std::string(edge.text("from-port"))});
  if (from == ports_.end()) return {};
  TRY_VOID(budget_.charge(Cost::kept, from->second.name.size() + from->second.type.size()));
  Port& output = outputs_[result->second];
  if (!from->second.name.empty()) output.name = from->second.name;
  if (output.type.empty()) output.type = from->second.type;
  return {};
}

Result<void> StructureReader::end_layer() {
  const Layer layer = std::move(layers_.back());
  layers_.pop_back();
  if (layer.type == "Const" || !layer.blobs.empty()) TRY_VOID(add_constants(layer));
  if (!scopes_.empty()) return {};
  if (layer.type == "Parameter") {
    const std::string& name = layer.output.name.empty() ? layer.name : layer.output.name;
    const std::string& dims = layer.shape == "?" ? layer.output.dims : layer.shape;
    return add_end(inputs_, layer, {name, layer.element_type, dims});
  }
  if (layer.type == "Input") return add_end(inputs_, layer, {layer.name, layer.precision, layer.output.dims});
  if (layer.type != "Result" || outputs_.size() == kMaxInlineList) return {};
  results_.try_emplace(layer.id, outputs_.size());
  return add_end(outputs_, layer, {layer.name, layer.input.type, layer.input.dims});
}

Result<void> StructureReader::add_constants(const Layer& layer) {
  const bool is_constant = layer.type == "Const";
  if (layer.blobs.empty())
    return tensors_.add({layer.name, scope(), layer.element_type, layer.shape, layer.offset, layer.size});
  for (const Blob& blob : layer.blobs) {
    const std::string name = is_constant ? layer.name : fmt::format("{}.{}", layer.name, blob.name);
    const std::string& type = blob.type.empty() ? layer.precision : blob.type;
    const auto shape = is_constant ? std::optional<std::string_view>(layer.output.dims) : std::nullopt;
    TRY_VOID(tensors_.add({name, scope(), type, shape, blob.offset, blob.size}));
  }
  return {};
}

Result<void> StructureReader::count(std::map<std::string, uint64_t, std::less<>>& counts, std::string_view name) {
  const auto known = counts.find(name);
  if (known != counts.end()) {
    ++known->second;
    return {};
  }
  TRY_VOID(budget_.charge(Cost::value, 2));
  TRY_VOID(budget_.charge(Cost::kept, name.size()));
  counts.emplace(name, 1);
  return {};
}

Result<void> StructureReader::add_end(std::vector<Port>& ends, const Layer& layer, const Port& port) {
  if (ends.size() == kMaxInlineList) return {};
  TRY_VOID(budget_.charge(Cost::value, 6 + std::min(port.dims.size(), kMaxDimensions)));
  TRY_VOID(budget_.charge(Cost::kept, layer.id.size() + port.name.size() + port.type.size() + port.dims.size()));
  ends.push_back(port);
  return {};
}

// Who wrote the model, and when; of the metadata of IR 11 and 10.
void set_producer(const Map& info, Map& metadata) {
  for (const char* const part : {"rt_info", "meta_data"}) {
    const auto* const map = info.find_as<Map>(part);
    for (const char* const key : {"Runtime_version", "MO_version"}) {
      const std::string_view version = map == nullptr ? std::string_view() : text_in(*map, key);
      if (version.empty()) continue;
      metadata.append("producer_name", key[0] == 'M' ? "Model Optimizer" : "OpenVINO");
      metadata.append("producer_version", version);
      return;
    }
  }
}

Result<void> StructureReader::finish(Model& model, Warnings& warnings) {
  if (version_.empty()) return failure(Code::corrupt, "no version of the format");
  if (!has_layers_) return failure(Code::corrupt, "no layers");
  model.version = version_;
  if (!name_.empty()) model.common.append("name", name_);
  std::move(code_).move_to(model.common);
  Map& metadata = model.metadata;
  metadata.append("ir_version", version_);
  Map info = info_.take();
  set_producer(info, metadata);
  for (const auto& [key, ends] : {std::pair("inputs", &inputs_), std::pair("outputs", &outputs_)}) {
    List list;
    for (const Port& port : *ends) list.emplace_back(end_of(port));
    if (!list.empty()) metadata.append(key, std::move(list));
  }
  for (const auto& [key, counts] : {std::pair("operators", &operators_), std::pair("opsets", &opsets_)}) {
    Map map;
    for (const auto& [name, number] : *counts) map.append(name, number);
    if (!map.empty()) metadata.append(key, std::move(map));
  }
  for (const auto& [key, value] : info) metadata.append(key, value);
  if (info_.is_full()) warnings.add("metadata beyond {} elements and attributes are left out", kMaxInfo);
  return {};
}

}  // namespace

Result<void> read_structure(const Container& container, Tensors& tensors, Model& model, Warnings& warnings) {
  StructureReader reader(*container.budget, tensors);
  TRY_VOID(read_xml(*container.bytes, *container.budget, reader));
  return reader.finish(model, warnings);
}

}  // namespace weightfs::openvino
