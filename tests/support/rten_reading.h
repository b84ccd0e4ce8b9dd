// Reads RTen files of tests, with the result as text.
#pragma once

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.h"
#include "formats/flat_formats.h"
#include "tests/builders/rten_builder.h"
#include "tests/support/reading.h"

namespace weightfs::test::rten {

using test::metadata_of;

inline Result<Model> read(SourcePtr bytes) { return read_rten(Container{"m.rten", std::move(bytes), nullptr}); }

inline Model read_well(std::string bytes) { return well(read(in_memory(std::move(bytes)))); }

inline std::string error_of(std::string bytes) { return error_in(read(in_memory(std::move(bytes)))); }

inline std::string text_of(const Source& source) { return read_text(source, 0, source.size()).value_or("unreadable"); }

// graph.json, or why there is none.
inline std::string graph_of(const Model& model) {
  if (model.documents.size() != 1) return "no graph.json";
  const auto rendered = model.documents[0].source.get();
  return rendered ? text_of(**rendered) : rendered.error().message;
}

// One line per tensor: scope, name, dtype, stored dtype, shape, bytes.
inline std::vector<std::string> listing(const Model& model) {
  std::vector<std::string> lines;
  for (const TensorView& t : model.tensors) {
    std::string shape;
    for (const uint64_t size : t.shape) shape += fmt::format("{}{}", shape.empty() ? "" : "x", size);
    lines.push_back(fmt::format("{}:{} {} {} [{}] {}", t.scope, t.name, t.dtype->name, t.stored_dtype, shape,
                                t.source.refused() ? "refused" : text_of(t.source)));
  }
  return lines;
}

}  // namespace weightfs::test::rten
