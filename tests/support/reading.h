// What a reader returned, in tests.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <utility>

#include "formats/model.h"

namespace weightfs::test {

/// The value, or an empty one and a failed test.
template <class T>
T well(Result<T> result) {
  if (result) return std::move(*result);
  ADD_FAILURE() << result.error().message;
  return {};
}

/// The message of the error, or "no error".
template <class T>
std::string error_in(const Result<T>& result) {
  return result ? "no error" : result.error().message;
}

/// The value of this key as one line of JSON, or "missing".
inline std::string json_at(const Map& map, std::string_view key) {
  const Value* const value = map.find(key);
  return value == nullptr ? "missing" : to_json_line(*value);
}

inline std::string metadata_of(const Model& model, std::string_view key) { return json_at(model.metadata, key); }

}  // namespace weightfs::test
