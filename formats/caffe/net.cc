#include "formats/caffe/net.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "base/text.h"
#include "formats/caffe/blob.h"
#include "formats/caffe/fields.h"
#include "formats/code/list.h"
#include "formats/common/limits.h"
#include "formats/graphs/graph_writer.h"
#include "formats/protobuf/dimensions.h"

namespace weightfs::caffe {
namespace {

// V1LayerParameter.LayerType, by its numbers from 0.
constexpr auto kOldTypes = std::to_array<std::string_view>({
    "NONE",
    "ACCURACY",
    "BNLL",
    "CONCAT",
    "CONVOLUTION",
    "DATA",
    "DROPOUT",
    "EUCLIDEAN_LOSS",
    "FLATTEN",
    "HDF5_DATA",
    "HDF5_OUTPUT",
    "IM2COL",
    "IMAGE_DATA",
    "INFOGAIN_LOSS",
    "INNER_PRODUCT",
    "LRN",
    "MULTINOMIAL_LOGISTIC_LOSS",
    "POOLING",
    "RELU",
    "SIGMOID",
    "SOFTMAX",
    "SOFTMAX_LOSS",
    "SPLIT",
    "TANH",
    "WINDOW_DATA",
    "ELTWISE",
    "POWER",
    "SIGMOID_CROSS_ENTROPY_LOSS",
    "HINGE_LOSS",
    "MEMORY_DATA",
    "ARGMAX",
    "THRESHOLD",
    "DUMMY_DATA",
    "SLICE",
    "MVN",
    "ABSVAL",
    "SILENCE",
    "CONTRASTIVE_LOSS",
    "EXP",
    "DECONVOLUTION",
});

// The fields of one of the three forms of a layer.
struct Form {
  uint32_t name, type, bottom, top, blobs;
};
constexpr Form kLayer = {layer::kName, layer::kType, layer::kBottom, layer::kTop, layer::kBlobs};
constexpr Form kOldLayer = {old_layer::kName, old_layer::kType, old_layer::kBottom, old_layer::kTop, old_layer::kBlobs};
// Its inputs and outputs are in the layer around it.
constexpr Form kOldestLayer = {oldest_layer::kName, oldest_layer::kType, 0, 0, oldest_layer::kBlobs};

// A layer but its weights.
struct Layer {
  std::string name, type;
  bool has_name = false, has_type = false;
  List bottoms, tops;
  List shapes;  // of the outputs of a layer of type Input
};

Map named(const std::string& name) {
  Map map;
  map.append("name", name);
  return map;
}

// The value that has the name of a blob, and whether a layer takes it.
struct CurrentValue {
  std::string name;  // unique in the graph
  bool is_used = false;
};

// The content of graph.json.
struct Graph {
  std::string name;
  List inputs, outputs, layers;
};

// In the form of ONNX's graph.json: a layer on each line.
Result<SourcePtr> graph_json(const Graph& graph, Budget& budget) {
  auto text = graph_document(budget, [&](GraphWriter& out) -> Result<void> {
    out.begin('{');
    out.begin("graph", '{');
    TRY_VOID(out.text_attribute("name", graph.name));
    for (const auto& [key, list] : {std::pair("inputs", &graph.inputs), std::pair("outputs", &graph.outputs)})
      TRY_VOID(out.attribute(key, to_json_line(*list)));
    out.begin("nodes", '[');
    for (const Value& layer : graph.layers) {
      out.line(1);
      out.json(to_json_line(layer));
      TRY_VOID(out.check_size());
    }
    return out.end("]}}");
  });
  return std::move(text).map([](std::string written) { return in_memory(std::move(written)); });
}

class NetReader {
 public:
  NetReader(const Container& container, Model& model, Warnings& warnings)
      : container_(container),
        budget_(*container.budget),
        scanner_(*container.bytes, container.budget.get()),
        model_(model),
        warnings_(warnings) {}

  Result<void> read() {
    const Message whole = scanner_.whole();
    Fields fields(scanner_, whole);
    while (const auto field = TRY(fields.next())) TRY_VOID(add(whole, *field));
    if (!has_layers_) return failure(Code::corrupt, "no layer with a name and a type");
    finish();
    return {};
  }

 private:
  Result<void> add(const Message& whole, const Field& field) {
    if (field.tag == net::kName) {
      TRY_VOID(budget_.charge(Cost::kept, field.bytes.size()));
      name_ = TRY(scanner_.text(field.bytes, kMaxNameLength));
    }
    if (field.tag == net::kInput) return add_text(field, inputs_);
    if (field.tag == varint(net::kInputDim) || field.tag == bytes(net::kInputDim))
      return add_dimensions(field, input_dims_);
    if (field.tag == net::kInputShape) {
      const Message shape = TRY(scanner_.child(whole, field));
      return add_shape(shape, input_shapes_);
    }
    if (field.tag != net::kLayer && field.tag != net::kOldLayers) return {};
    const Message message = TRY(scanner_.child(whole, field));
    if (field.tag == net::kLayer) return layer(message, kLayer, {});
    const Message oldest = TRY(scanner_.message_at(message, old_layer::kOldest));
    return layer(message, kOldLayer, oldest);
  }

  // `oldest`: the layer in a layer of files before 2014; absent in others.
  Result<void> layer(const Message& message, const Form& form, const Message& oldest) {
    Layer layer;
    TRY_VOID(describe(message, form, layer));
    TRY_VOID(describe(oldest, kOldestLayer, layer));
    has_layers_ = has_layers_ || (layer.has_name && layer.has_type);
    if (layer.type == "Python") TRY_VOID(note_python(message));
    uint64_t index = 0;
    TRY_VOID(add_blobs(message, form, layer.name, index));
    TRY_VOID(add_blobs(oldest, kOldestLayer, layer.name, index));
    return keep(std::move(layer));
  }

  // Caffe imports the module, and makes an object of the class.
  Result<void> note_python(const Message& layer) {
    const Message python = TRY(scanner_.message_at(layer, layer::kPythonParameter));
    const std::string module = TRY(scanner_.text_at(python, kModule, kMaxNameLength));
    const std::string type = TRY(scanner_.text_at(python, kClass, kMaxNameLength));
    code_.add({fmt::format("Python layer {}.{}", module, type), "", "when Caffe loads the network"});
    return {};
  }

  Result<void> describe(const Message& message, const Form& form, Layer& out) {
    Fields fields(scanner_, message);
    while (const auto field = TRY(fields.next())) {
      if (field->tag == form.name) {
        out.name = TRY(scanner_.text(field->bytes, kMaxNameLength));
        out.has_name = true;
      }
      if (field->tag == form.type) {
        const bool is_number = form.type == old_layer::kType;
        out.type = is_number ? old_type_name(field->value) : TRY(scanner_.text(field->bytes, kMaxNameLength));
        out.has_type = true;
      }
      if (form.bottom == 0) continue;
      if (field->tag == form.bottom) TRY_VOID(add_text(*field, out.bottoms));
      if (field->tag == form.top) TRY_VOID(add_text(*field, out.tops));
      if (form.type != layer::kType || field->tag != layer::kInputParameter) continue;
      const Message input = TRY(scanner_.child(message, *field));
      Fields shapes(scanner_, input);
      while (const auto each = TRY(shapes.next())) {
        if (each->tag != kShapeOfInput) continue;
        const Message shape = TRY(scanner_.child(input, *each));
        TRY_VOID(add_shape(shape, out.shapes));
      }
    }
    return {};
  }

  Result<void> add_text(const Field& field, List& list) {
    TRY_VOID(budget_.charge(Cost::value));
    TRY_VOID(budget_.charge(Cost::kept, 2 * field.bytes.size()));
    list.emplace_back(TRY(scanner_.text(field.bytes, kMaxNameLength)));
    return {};
  }

  Result<void> add_dimensions(const Field& field, Shape& dims) {
    std::optional<std::string> problem;
    TRY_VOID(budget_.charge(Cost::value));
    return protobuf::read_dimensions(scanner_, field, dims, problem);
  }

  Result<void> add_shape(const Message& message, List& shapes) {
    Shape shape;
    std::optional<std::string> problem;
    TRY_VOID(read_shape(scanner_, message, shape, problem));
    TRY_VOID(budget_.charge(Cost::value, 1 + shape.size()));
    shapes.emplace_back(List(shape.begin(), shape.end()));
    return {};
  }

  Result<void> add_blobs(const Message& message, const Form& form, const std::string& name, uint64_t& index) {
    Fields fields(scanner_, message);
    while (const auto field = TRY(fields.next())) {
      if (field->tag != form.blobs) continue;
      Message child = TRY(scanner_.child(message, *field));
      const Blob blob = TRY(read_blob(scanner_, std::move(child)));
      TRY_VOID(budget_.charge(Cost::tensor));
      TRY_VOID(budget_.charge(Cost::kept, name.size() + 8 + sizeof(uint64_t) * blob.shape.size()));
      Tensor tensor{.name = fmt::format("{}.{}", name, index++),
                    .dtype = blob.dtype(),
                    .stored_dtype = blob.stored_dtype(),
                    .scope = {},
                    .shape = blob.shape,
                    .source = {}};
      auto values = values_of(blob, container_.bytes, scanner_);
      if (!values && !is_about_the_bytes(values.error())) return tl::unexpected(values.error());
      if (values)
        tensor.source = std::move(*values);
      else
        warnings_.refuse(values.error().code, "tensor {}: {}: refused", quoted(tensor.name), values.error().message);
      model_.tensors.push_back(tensor);
    }
    return {};
  }

  // The outputs are the values that no later layer takes, as Net::Init has them. A layer may replace a value by another
  // one of the same name.
  Result<void> keep(Layer layer) {
    for (Value& bottom : layer.bottoms) {
      const auto found = values_.find(std::get<std::string>(bottom));
      if (found == values_.end()) continue;
      found->second.is_used = true;
      TRY_VOID(budget_.charge(Cost::kept, found->second.name.size()));
      bottom = found->second.name;
    }
    for (Value& top : layer.tops) {
      const std::string name = std::get<std::string>(top);
      TRY_VOID(budget_.charge(Cost::value, 2));
      TRY_VOID(budget_.charge(Cost::kept, 3 * (name.size() + layer.name.size())));
      const auto [value, is_new] = values_.try_emplace(name);
      if (!is_new) top = fmt::format("{} ({})", name, layer.name);
      value->second = {std::get<std::string>(top), false};
    }
    if (layer.type == "Input") {
      inputs_.insert(inputs_.end(), layer.tops.begin(), layer.tops.end());
      input_shapes_.insert(input_shapes_.end(), layer.shapes.begin(), layer.shapes.end());
    }
    TRY_VOID(budget_.charge(Cost::value, 9));
    TRY_VOID(budget_.charge(Cost::kept, 2 * (layer.name.size() + layer.type.size())));
    ++operators_[layer.type];
    Map shown;
    shown.append("name", std::move(layer.name));
    shown.append("op_type", std::move(layer.type));
    shown.append("inputs", std::move(layer.bottoms));
    shown.append("outputs", std::move(layer.tops));
    layers_.emplace_back(std::move(shown));
    return {};
  }

  // The inputs of the network, with their shapes where it has them.
  List inputs() const {
    List shown;
    for (size_t i = 0; i < std::min(inputs_.size(), kMaxInlineList); ++i) {
      Map input;
      input.append("name", inputs_[i]);
      if (i < input_shapes_.size()) input.append("shape", input_shapes_[i]);
      if (const size_t at = 4 * i; input_shapes_.empty() && at + 4 <= input_dims_.size())
        input.append("shape", List(input_dims_.begin() + static_cast<ptrdiff_t>(at),
                                   input_dims_.begin() + static_cast<ptrdiff_t>(at + 4)));
      shown.emplace_back(std::move(input));
    }
    return shown;
  }

  void finish() {
    Map& metadata = model_.metadata;
    if (!name_.empty()) model_.common.append("name", name_);
    std::move(code_).move_to(model_.common);
    List inputs = this->inputs();
    if (!inputs.empty()) metadata.append("inputs", inputs);
    List outputs, values;
    for (const auto& [name, value] : values_) {
      if (value.is_used || outputs.size() == kMaxInlineList) continue;
      outputs.emplace_back(named(name));
      values.emplace_back(named(value.name));
    }
    if (!outputs.empty()) metadata.append("outputs", std::move(outputs));
    Map operators;
    for (const auto& [type, count] : operators_) operators.append(type, count);
    metadata.append("operators", std::move(operators));
    const auto graph = std::make_shared<Graph>();
    *graph = {std::move(name_), std::move(inputs), std::move(values), std::move(layers_)};
    model_.documents.push_back(
        {"graph.json", Later<SourcePtr>([graph, budget = container_.budget] { return graph_json(*graph, *budget); })});
  }

  const Container& container_;
  Budget& budget_;
  Scanner scanner_;
  Model& model_;
  Warnings& warnings_;
  bool has_layers_ = false;
  std::string name_;
  List inputs_, input_shapes_;
  Shape input_dims_;
  std::map<std::string, CurrentValue> values_;
  std::map<std::string, uint64_t> operators_;
  CodeList code_;
  List layers_;
};

}  // namespace

std::string old_type_name(uint64_t number) {
  return number < kOldTypes.size() ? std::string(kOldTypes.at(number)) : fmt::format("type {}", number);
}

Result<void> read_net(const Container& container, Model& model, Warnings& warnings) {
  return NetReader(container, model, warnings).read();
}

}  // namespace weightfs::caffe
