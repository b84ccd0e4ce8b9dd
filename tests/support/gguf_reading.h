// Reads GGUF files of tests and returns the result as text.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.h"
#include "formats/flat_formats.h"
#include "tests/builders/gguf_builder.h"
#include "tests/support/model_text.h"
#include "tests/support/reading.h"

namespace weightfs::test {

inline Result<Model> read(std::string bytes) {
  return read_gguf(Container{"m.gguf", in_memory(std::move(bytes)), nullptr});
}

inline Model read_well(std::string bytes) { return well(read(std::move(bytes))); }

inline std::string error_of(std::string bytes) { return error_in(read(std::move(bytes))); }

inline std::string json_of(const Model& model, std::string_view key) {
  const Map metadata = metadata_with_facts(model);
  const Value* value = metadata.find(key);
  return value == nullptr ? "missing" : to_json(*value);
}

}  // namespace weightfs::test
