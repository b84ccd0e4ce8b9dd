// Tensors of numbers, for tests of comparisons.
#pragma once

#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "formats/model.h"
#include "tests/support/models.h"

namespace weightfs::test {

/// A tensor of these numbers, of the type called `dtype`, with one dimension.
template <class Number>
Tensor tensor_of(std::string name, const DType* dtype, const std::vector<Number>& values) {
  Tensor tensor;
  tensor.name = std::move(name);
  tensor.dtype = dtype;
  tensor.stored_dtype = dtype->name;
  tensor.shape = {values.size()};
  std::string bytes(values.size() * sizeof(Number), '\0');
  if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  const uint64_t size = bytes.size();
  tensor.source = slice(in_memory(std::move(bytes)), 0, size).value();
  return tensor;
}

inline Tensor float32_tensor(std::string name, const std::vector<float>& values) {
  return tensor_of(std::move(name), dtype_named("float32"), values);
}

/// Bytes that cannot be read.
class UnreadableSource final : public Source {
 public:
  explicit UnreadableSource(uint64_t size) : size_(size) {}
  uint64_t size() const override { return size_; }
  Result<size_t> read(uint64_t, std::span<std::byte>) const override { return failure(Code::io, "disk error"); }

 private:
  uint64_t size_;
};

/// A float32 tensor that cannot be read.
inline Tensor unreadable_tensor(std::string name, Shape shape) {
  Tensor tensor = float32_tensor(std::move(name), {});
  tensor.shape = std::move(shape);
  const uint64_t size = size_in_bytes(*tensor.dtype, tensor.shape).value();
  tensor.source = slice(std::make_shared<UnreadableSource>(size), 0, size).value();
  return tensor;
}

}  // namespace weightfs::test
