#include "fs/npy.h"

#include "base/text.h"

namespace weightfs {
namespace {

constexpr size_t kMostOfNumpy = 32;  // NPY_MAXDIMS
constexpr size_t kAlignment = 64;    // so that a mapped array is aligned

// The dimensions of the array that holds the tensor's bytes.
Shape array_shape(const Tensor& tensor) {
  const DType& dtype = *tensor.dtype;
  if (!dtype.npy_packed) return tensor.shape;
  if (tensor.shape.empty() || tensor.shape.back() % dtype.block != 0) return {tensor.nbytes()};
  Shape shape = tensor.shape;
  shape.back() = shape.back() / dtype.block * dtype.block_bytes;
  return shape;
}

// A tuple as Python writes it: (), (3,), (2, 3).
std::string python_tuple(const Shape& shape) {
  std::string out = "(";
  for (size_t i = 0; i < shape.size(); ++i) out += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  return out + (shape.size() == 1 ? ",)" : ")");
}

}  // namespace

bool has_npy(const Tensor& tensor) {
  return !tensor.source.refused() && !tensor.dtype->npy_descr.empty() && tensor.shape.size() <= kMostOfNumpy;
}

std::string npy_header(const Tensor& tensor) {
  std::string dict = str("{'descr': '", tensor.dtype->npy_descr,
                         "', 'fortran_order': False, 'shape': ", python_tuple(array_shape(tensor)), ", }");
  constexpr size_t kPrefix = 10;  // magic, version, u16 length: 32 dimensions never need version 2.0
  const size_t unpadded = kPrefix + dict.size() + 1;
  dict.append((kAlignment - unpadded % kAlignment) % kAlignment, ' ');
  dict += '\n';
  std::string header = "\x93NUMPY";
  header += {'\x01', '\x00', static_cast<char>(dict.size() & 0xFF), static_cast<char>(dict.size() >> 8)};
  return header + dict;
}

}  // namespace weightfs
