#include "formats/numpy/npy_header.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/values/little_endian.h"

namespace weightfs {
namespace {

// A tuple as Python writes it: (), (3,), (2, 3).
std::string python_tuple(ShapeView shape) {
  std::string out = "(";
  for (size_t i = 0; i < shape.size(); ++i) out += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  return out + (shape.size() == 1 ? ",)" : ")");
}

}  // namespace

std::string npy_header(std::string_view descr, ShapeView shape) {
  constexpr size_t kAlignment = 64;
  std::string dict = fmt::format("{{'descr': {}, 'fortran_order': False, 'shape': {}, }}", descr, python_tuple(shape));
  const bool is_ascii = std::ranges::all_of(descr, [](char c) { return static_cast<unsigned char>(c) < 0x80; });
  const size_t length = is_ascii ? 2 : 4;                // bytes of the dict's length
  const size_t unpadded = 8 + length + dict.size() + 1;  // magic and version are 8 bytes
  dict.append((kAlignment - unpadded % kAlignment) % kAlignment, ' ');
  dict += '\n';
  std::string header = "\x93NUMPY";
  header += {is_ascii ? '\x01' : '\x03', '\x00'};
  append_little_endian(header, dict.size(), length);
  return header + dict;
}

}  // namespace weightfs
