// Reads only the top-level keys of a JSON file, to identify it cheaply: a model's directory may hold many.
#pragma once

#include "base/source.h"
#include "base/values/value.h"

namespace weightfs {

/// The top-level keys of the object in `json`: scalars with their values, lists and maps empty. Keys after the first 64
/// are omitted. Fails with unsupported if it is longer than `most` bytes, and with corrupt if it is not a JSON object.
Result<Map> outline(const Source& json, uint64_t most);

/// Whether `outline` has a value of type `T` at `key`.
template <class T>
bool holds(const Map& outline, std::string_view key) {
  const Value* value = outline.find(key);
  return value != nullptr && std::holds_alternative<T>(*value);
}

}  // namespace weightfs
