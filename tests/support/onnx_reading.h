// Reads ONNX models in tests.
#pragma once

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "formats/format.h"
#include "tests/builders/onnx_builder.h"
#include "tests/support/memory_folder.h"
#include "tests/support/model_text.h"
#include "tests/support/reading.h"

namespace weightfs::test::onnx {

using test::metadata_of;

inline Result<Model> read(const std::string& bytes, Files beside = {}) {
  return read_as("onnx", {"m.onnx", in_memory(bytes), std::make_shared<MemoryFolder>(std::move(beside))});
}

inline Model read_well(const std::string& bytes, Files beside = {}) { return well(read(bytes, std::move(beside))); }

inline std::string error_of(const std::string& bytes) { return error_in(read(bytes)); }

/// A line for each tensor: scope, name, dtype, shape, and its bytes in hexadecimal.
inline std::vector<std::string> lines_of(const Model& model) {
  std::vector<std::string> lines;
  for (const TensorView& t : model.tensors) {
    std::string line = fmt::format("{}:{} {} [", t.scope, t.name, t.dtype->name);
    for (const uint64_t& size : t.shape) line += fmt::format("{}{}", &size == t.shape.data() ? "" : "x", size);
    line += t.source.refused() ? "] refused" : "] ";
    if (!t.source.refused())
      for (const char byte : text_of(t.source)) line += fmt::format("{:02x}", static_cast<uint8_t>(byte));
    lines.push_back(std::move(line));
  }
  return lines;
}

/// The line of a model of one tensor, without its name.
inline std::string line_of(const Message& tensor) {
  const std::vector<std::string> lines = lines_of(read_well(model(graph({tensor})).build()));
  return lines.size() == 1 ? lines[0].substr(lines[0].find(' ') + 1) : "not one tensor";
}

/// The warning about a model of one tensor.
inline std::string warning_of(const Message& tensor) {
  const Model read = read_well(model(graph({tensor})).build());
  return read.warnings.size() == 1 ? read.warnings[0] : fmt::format("{} warnings", read.warnings.size());
}

}  // namespace weightfs::test::onnx
