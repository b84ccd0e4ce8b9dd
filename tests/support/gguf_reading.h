// Reads GGUF files of tests and returns the result as text.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.h"
#include "formats/format.h"
#include "tests/support/gguf_builder.h"
#include "tests/support/model_text.h"

namespace weightfs::test {

inline Result<Model> read(std::string bytes) {
  return read_gguf(Container{"m.gguf", in_memory(std::move(bytes)), nullptr});
}

// The model, or an empty one and a failed test.
inline Model read_well(std::string bytes) {
  auto model = read(std::move(bytes));
  if (model) return std::move(*model);
  ADD_FAILURE() << model.error().message;
  return {};
}

inline std::string error_of(std::string bytes) {
  const auto model = read(std::move(bytes));
  return model ? "no error" : model.error().message;
}

inline std::string json_of(const Model& model, std::string_view key) {
  const Value* value = model.metadata.find(key);
  return value == nullptr ? "missing" : to_json(*value);
}

}  // namespace weightfs::test
