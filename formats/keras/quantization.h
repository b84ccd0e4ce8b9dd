// How the layers of a Keras model are quantised, by its configuration: the types of the weights do not tell int4 from
// int8.
#pragma once

#include <set>
#include <string>

#include "base/values/value.h"

namespace weightfs::keras {

/// The maximum number of modes that are named.
inline constexpr size_t kMaxModes = 16;

/// The modes of the dtype policies in a configuration: "int8", "int4", "float8", "gptq/4/128".
std::set<std::string> quantization_modes(const Value& configuration);

}  // namespace weightfs::keras
