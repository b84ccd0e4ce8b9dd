// What a JSON file is, told by the keys at its top and without building what is under them: beside a model lie many.
#pragma once

#include "base/source.h"
#include "base/values/value.h"

namespace weightfs {

/// The keys of the object that `json` is: texts, numbers and so on with their values, lists and maps empty. Keys after
/// the first 64 are left out. Fails with unsupported when it is longer than `most` bytes, with corrupt when it is no
/// JSON object.
Result<Map> outline(const Source& json, uint64_t most);

/// Whether `outline` has a `T` at `key`.
template <class T>
bool holds(const Map& outline, std::string_view key) {
  const Value* value = outline.find(key);
  return value != nullptr && std::holds_alternative<T>(*value);
}

}  // namespace weightfs
