// Models built in memory, for tests of layers above the formats.
#pragma once

#include <string>
#include <utility>

#include "formats/model.h"

namespace weightfs {

/// A tensor of bytes 0, 1, 2, … of the type called `dtype`.
inline Tensor make_tensor(std::string name, std::string_view dtype, Shape shape, std::string_view scope = "") {
  Tensor tensor;
  tensor.name = std::move(name);
  tensor.dtype = dtype_named(dtype);
  tensor.stored_dtype = "STORED";
  tensor.scope = scope;
  tensor.shape = std::move(shape);
  std::string bytes;
  for (uint64_t i = size_in_bytes(*tensor.dtype, tensor.shape).value(); i > 0; --i)
    bytes += static_cast<char>(bytes.size());
  const uint64_t size = bytes.size();
  tensor.source = slice(in_memory(std::move(bytes)), 0, size).value();
  return tensor;
}

}  // namespace weightfs
