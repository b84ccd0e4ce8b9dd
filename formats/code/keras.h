// Configurations of Keras models: layers with Python code, and references to functions and classes that are not those
// of Keras.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "formats/code/list.h"

namespace weightfs::code {

/// The maximum number of Lambda layers that are named.
inline constexpr size_t kMaxLambdaLayers = 100;

/// The names of the Lambda layers in a configuration, in order; "" for one without a name.
std::vector<std::string> lambda_layers(const Value& configuration);

/// Adds what may run code in the configuration of a model, or of a layer.
void add_keras(const Value& configuration, std::string_view file, CodeList& out);

/// Adds a layer by its class, if that is not one of Keras.
void add_layer_class(std::string_view class_name, std::string_view file, CodeList& out);

}  // namespace weightfs::code
