// Builds NumPy's .npy and .npz files for tests, right or wrong.
#pragma once

#include <fmt/core.h>

#include <string>
#include <string_view>

#include "tests/builders/zip_builder.h"

namespace weightfs::test {

/// A file with this text as its header, unpadded. Versions other than 1 have a length of four bytes.
inline std::string npy_of(std::string_view header, std::string_view data, uint8_t major = 1, uint8_t minor = 0) {
  std::string out = "\x93NUMPY";
  out += static_cast<char>(major);
  out += static_cast<char>(minor);
  for (int i = 0; i < (major == 1 ? 2 : 4); ++i) out += static_cast<char>(header.size() >> (8 * i) & 0xFF);
  return out.append(header).append(data);
}

/// The header of an array as NumPy writes it; `descr` is a Python literal.
inline std::string npy_dict(std::string_view descr, std::string_view shape, bool fortran_order = false) {
  return fmt::format("{{'descr': {}, 'fortran_order': {}, 'shape': {}, }}", descr, fortran_order ? "True" : "False",
                     shape);
}

/// An array of this type string.
inline std::string npy(std::string_view type, std::string_view shape, std::string_view data,
                       bool fortran_order = false) {
  return npy_of(npy_dict(fmt::format("'{}'", type), shape, fortran_order) + "\n", data);
}

inline std::string small_npy() { return npy("<f4", "(2, 2)", std::string(16, 'w')); }

/// A stored member as numpy.savez writes it, a deflated one of text, and a big-endian one in Fortran order.
inline std::string small_npz() {
  ZipBuilder b;
  b.stored("w.npy", small_npy()).zip64 = true;
  b.deflated("layer/s.npy", npy("|S3", "(2,)", "abcdef"));
  b.stored("f.npy", npy(">i2", "(2, 2)", std::string("\0\1\0\2\0\3\0\4", 8), true));
  return b.build();
}

}  // namespace weightfs::test
