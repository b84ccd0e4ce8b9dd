// Lambda layers of Keras: a model's configuration may hold Python code in base64. It is only text here, but a program
// that loads the model may run it.
#pragma once

#include <string>
#include <vector>

#include "base/values/value.h"

namespace weightfs {

/// The maximum number of Lambda layers that are named.
inline constexpr size_t kMaxLambdaLayers = 100;

/// The names of the Lambda layers in a configuration, in order; "" for one without a name.
std::vector<std::string> lambda_layers(const Value& configuration);

}  // namespace weightfs
