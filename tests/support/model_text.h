// The tensors of a Model as text.
#pragma once

#include <fmt/core.h>

#include <string>
#include <vector>

#include "base/text.h"
#include "formats/model.h"

namespace weightfs::test {

inline std::string text_of(const Source& source) { return read_text(source, 0, source.size()).value_or("unreadable"); }

// One line per tensor: name, dtype, stored dtype, shape, bytes.
inline std::vector<std::string> listing(const Model& model) {
  std::vector<std::string> lines;
  for (const TensorView& t : model.tensors) {
    std::string shape;
    for (const uint64_t size : t.shape) shape += fmt::format("{}{}", shape.empty() ? "" : "x", size);
    lines.push_back(fmt::format("{} {} {} [{}] {}", t.name, t.dtype->name, t.stored_dtype, shape,
                                t.source.refused() ? "refused" : text_of(t.source)));
  }
  return lines;
}

}  // namespace weightfs::test
