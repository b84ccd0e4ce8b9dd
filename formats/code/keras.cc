// Reference: keras/src/saving/serialization_lib.py of Keras 3, keras/saving/legacy/serialization.py of Keras 2.
#include "formats/code/keras.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "base/text.h"
#include "base/values/base64.h"
#include "formats/code/keras_layers.h"
#include "formats/code/names.h"
#include "formats/code/operators.h"
#include "formats/protobuf/scanner.h"

namespace weightfs::code {
namespace {

constexpr auto kKerasPackages =
    std::to_array<std::string_view>({"keras", "keras_core", "tf_keras", "tensorflow", "keras_nlp", "keras_hub",
                                     "keras_cv", "tensorflow_addons", "Addons", "Vision", "Text"});

// Layers that load what is in other files, or functions of other libraries.
constexpr auto kLoading =
    std::to_array<std::string_view>({"TFSMLayer", "TorchModuleWrapper", "JaxLayer", "FlaxLayer", "TFLayer"});

// The modules of tensorflow whose functions only compute; of io only those that decode.
constexpr auto kComputing = std::to_array<std::string_view>(
    {"math",         "nn",      "image",        "linalg", "signal", "strings", "bitwise",       "sparse",
     "ragged",       "random",  "quantization", "sets",   "dtypes", "audio",   "__operators__", "keras",
     "experimental", "raw_ops", "compat",       "v1",     "v2",     "numpy"});

constexpr const char* kLoaded = "when Keras loads the model";
constexpr const char* kUnsafeMode = "when Keras loads the model without safe_mode, or runs the layer";
constexpr const char* kCustom = "when a program that has the class or function loads the model";

std::string layer_name(const Map& layer) {
  const Map* const fields = layer.find_as<Map>("config");
  return fields == nullptr ? "" : std::string(text_in(*fields, "name"));
}

// Values are nested at most kMaxDepth deep (read_json).
void find_lambdas(const Value& value, std::vector<std::string>& names) {
  if (names.size() >= kMaxLambdaLayers) return;
  if (const auto* const list = std::get_if<List>(&value))
    for (const Value& one : *list) find_lambdas(one, names);
  const auto* const map = std::get_if<Map>(&value);
  if (map == nullptr) return;
  if (text_in(*map, "class_name") == "Lambda") names.push_back(layer_name(*map));
  for (const auto& [key, one] : *map) find_lambdas(one, names);
}

// "math.multiply", "io.write_file": of the layers that call one function of TensorFlow.
bool only_computes(std::string_view function) {
  const std::string_view first = package_of(function), last = member_of(function);
  if (first == "io") return last.starts_with("decode_") || last.starts_with("parse_");
  if (first == "raw_ops" && (last.find("File") != last.npos || last.find("PyFunc") != last.npos)) return false;
  return function != "print" && (first == last || is_one_of(first, kComputing)) && !is_one_of("io", std::array{last}) &&
         !leads_to_danger(first == "__operators__" ? last : function);
}

class Finder {
 public:
  Finder(std::string_view file, CodeList& out) : file_(file), out_(out) {}

  void visit(const Value& value, bool is_layer, bool in_lambda) {
    if (const auto* const list = std::get_if<List>(&value))
      for (const Value& one : *list) visit(one, is_layer, in_lambda);
    const auto* const map = std::get_if<Map>(&value);
    if (map == nullptr) return;
    const bool is_lambda = text_in(*map, "class_name") == "Lambda";
    if (map->find_as<std::string>("class_name") != nullptr) examine(*map, is_layer, in_lambda);
    for (const auto& [key, one] : *map)
      visit(one, key == "layers" || key == "layer" || key == "cell" || key == "cells", in_lambda || is_lambda);
  }

 private:
  void add(std::string what, const char* runs) { out_.add({std::move(what), file_, runs}); }

  void examine(const Map& object, bool is_layer, bool in_lambda) {
    const std::string_view class_name = text_in(object, "class_name");
    const std::string name = layer_name(object);
    const std::string at = name.empty() ? "" : fmt::format(" {}", quoted(name));
    if (class_name == "Lambda") return add(fmt::format("Lambda layer{}", at), kUnsafeMode);
    if (class_name == "__lambda__" && in_lambda) return;
    if (class_name == "__lambda__") return add("code of a Python function", kUnsafeMode);
    if (is_one_of(class_name, kLoading)) return add(fmt::format("layer {}{}", class_name, at), kUnsafeMode);
    if (class_name == "TFOpLambda" || class_name == "SlicingOpLambda") return examine_function(object);
    if (class_name == "TensorFlowOpLayer") return examine_node(object);
    examine_reference(object, is_layer);
  }

  // The node of a graph: an object since TensorFlow 2.2, before that a message of Protocol Buffers as a text.
  void examine_node(const Map& layer) {
    const Map* const config = layer.find_as<Map>("config");
    const Value* const node = config == nullptr ? nullptr : config->find("node_def");
    if (node == nullptr) return;
    if (const auto* const map = std::get_if<Map>(node)) {
      add_tensorflow(text_in(*map, "op"), file_, out_);
      return add_printing_to(printed_stream(*map), file_, out_);
    }
    if (const auto* const text = std::get_if<std::string>(node)) examine_message(*text);
  }

  // Where a PrintV2 prints to: {"attr": {"output_stream": {"s": "c3RkZXJy"}}}.
  static std::string printed_stream(const Map& node) {
    const Map* const attributes = node.find_as<Map>("attr");
    const Map* const stream = attributes == nullptr ? nullptr : attributes->find_as<Map>("output_stream");
    const auto decoded = stream == nullptr ? std::nullopt : from_base64(text_in(*stream, "s"));
    return decoded && text_in(node, "op") == "PrintV2" ? *decoded : "";
  }

  void examine_message(const std::string& text) {
    constexpr uint32_t kOp = protobuf::bytes(2);
    const SourcePtr bytes = in_memory(text);
    protobuf::Scanner scanner(*bytes, nullptr);
    const auto op = scanner.text_at(scanner.whole(), kOp, text.size());
    if (!op) return;
    add_tensorflow(*op, file_, out_);
    const size_t stream = *op == "PrintV2" ? text.find("file:") : text.npos;
    if (stream != text.npos) add_printing_to(text.substr(stream), file_, out_);
  }

  void examine_function(const Map& layer) {
    const Map* const config = layer.find_as<Map>("config");
    const std::string_view function = config == nullptr ? "" : text_in(*config, "function");
    if (!function.empty() && !only_computes(function))
      add(fmt::format("{} of tf.{}", text_in(layer, "class_name"), function), "when the layer is run");
  }

  // {"module": "os", "class_name": "function", "config": "system", "registered_name": "function"}
  void examine_reference(const Map& object, bool is_layer) {
    const std::string_view module = text_in(object, "module"), registered = text_in(object, "registered_name");
    const std::string_view class_name = text_in(object, "class_name"), config = text_in(object, "config");
    const bool is_function = class_name == "function" || class_name == "class";
    const std::string_view member = config.empty() ? class_name : config;
    if (module == "builtins") return examine_builtin(member, is_function || leads_to_danger(class_name));
    if (module.empty() && leads_to_danger(class_name)) return add(std::string(class_name), kLoaded);
    const bool is_known = module.empty() || is_one_of(package_of(module), kKerasPackages);
    const std::string full = fmt::format("{}.{}", module, member);
    const bool leads = leads_to_danger(full) || leads_to_danger(class_name);
    if (!is_known || (!module.empty() && (leads || !is_usual(module, class_name, is_function))))
      return add(full, is_known || is_importable(registered) ? kLoaded : kCustom);
    examine_class(class_name, registered, module, is_layer);
  }

  // A function that the program registered has this module, too.
  void examine_builtin(std::string_view member, bool is_function) {
    if (!is_function || is_of_keras(member, kFunctionsOfKeras)) return;
    const bool is_active = leads_to_danger(member) || member == "input" || member == "exit";
    add(fmt::format("{}{}", is_active ? "builtins." : "custom function ", member), is_active ? kLoaded : kCustom);
  }

  // Functions of Keras outside of its modules for models are of no use in a configuration.
  static bool is_usual(std::string_view module, std::string_view class_name, bool is_function) {
    const bool is_member = is_function || class_name.empty() || class_name[0] >= 'a';
    const auto has = [&](std::string_view word) {
      return fmt::format(".{}.", module).find(fmt::format(".{}.", word)) != std::string::npos;
    };
    return !is_member || !(has("utils") || has("config") || has("saving") || has("export") || has("io"));
  }

  // Keras imports what is not registered under a name with its package.
  static bool is_importable(std::string_view registered) { return registered.find('>') == registered.npos; }

  void examine_class(std::string_view class_name, std::string_view registered, std::string_view module, bool is_layer) {
    for (const std::string_view name : {registered, class_name}) {
      const size_t end = name.find('>');
      if (end != name.npos && !is_one_of(name.substr(0, end), kKerasPackages))
        return add(fmt::format("custom class {}", name), kCustom);
    }
    const bool has_name = class_name.find('>') == class_name.npos;
    if (is_layer && module.empty() && has_name) add_layer_class(class_name, file_, out_);
  }

  std::string file_;
  CodeList& out_;
};

}  // namespace

std::vector<std::string> lambda_layers(const Value& configuration) {
  std::vector<std::string> names;
  find_lambdas(configuration, names);
  return names;
}

void add_layer_class(std::string_view class_name, std::string_view file, CodeList& out) {
  if (!is_of_keras(class_name, kLayersOfKeras))
    out.add({fmt::format("custom class {}", class_name), std::string(file), kCustom});
}

void add_keras(const Value& configuration, std::string_view file, CodeList& out) {
  Finder(file, out).visit(configuration, false, false);
}

}  // namespace weightfs::code
