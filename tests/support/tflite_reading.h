// Reads TFLite files of tests, with the result as text.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.h"
#include "formats/format.h"
#include "tests/builders/tflite_builder.h"
#include "tests/support/memory_folder.h"
#include "tests/support/reading.h"

namespace weightfs::test::tflite {

using test::metadata_of;

inline Result<Model> read(SourcePtr bytes, const Files& beside = {}) {
  return read_as("tflite", Container{"m.tflite", std::move(bytes), std::make_shared<MemoryFolder>(beside)});
}

inline Model read_well(std::string bytes, const Files& beside = {}) {
  return well(read(in_memory(std::move(bytes)), beside));
}

inline std::string error_of(std::string bytes) { return error_in(read(in_memory(std::move(bytes)))); }

// The rendered document, or why there is none.
inline std::string document_of(const Model& model, std::string_view path) {
  for (const Document& document : model.documents) {
    if (document.path != path) continue;
    const auto rendered = document.source.get();
    return rendered ? read_text(**rendered, 0, (*rendered)->size()).value() : rendered.error().message;
  }
  return "missing";
}

}  // namespace weightfs::test::tflite
