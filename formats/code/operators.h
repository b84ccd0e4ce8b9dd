// Operators of graphs and functions of TorchScript that do more than compute, or that need a library.
#pragma once

#include <string_view>

#include "formats/code/list.h"

namespace weightfs::code {

/// Adds an operator of a graph of TensorFlow, or of a model of TFLite ("FlexReadFile"), if it reads or writes files or
/// calls Python ("ReadFile", "PyFunc"), or if it has a namespace, as those of libraries may have ("Addons>Resampler").
/// Nothing tells other operators of libraries from those of TensorFlow.
void add_tensorflow(std::string_view op, std::string_view where, CodeList& out);

/// Adds a PrintV2 that prints to a file: "file:///tmp/x".
void add_printing_to(std::string_view stream, std::string_view where, CodeList& out);

/// Whether an operator of this domain is neither one of ONNX nor one of ONNX Runtime, or calls Python.
bool is_custom_onnx(std::string_view domain, std::string_view type);

/// Whether OpenVINO has the operators of this version of a layer without a library: "opset1". Those that a library
/// registers have "extension", or a name of its own.
bool is_of_openvino(std::string_view version, std::string_view type);

/// Whether TFLite, or TFLite for microcontrollers, has this custom operator itself, or as one of TensorFlow
/// ("FlexErf").
bool is_of_tflite(std::string_view custom_op);

/// Whether ExecuTorch has the operators of this namespace: "aten" of "aten::add.out".
bool is_namespace_of_executorch(std::string_view space);

/// Adds an operator that the format's own runtime does not have: "my.domain.Op".
void add_custom_operator(std::string_view op, CodeList& out);

/// Adds a layer or model of Core ML whose code is a class of the app: `what` is "custom layer".
void add_class_of_app(std::string_view what, std::string_view class_name, CodeList& out);

/// Adds what the source code of a TorchScript module calls besides the operators of torch.
void add_torchscript(std::string_view source, std::string_view file, CodeList& out);

}  // namespace weightfs::code
