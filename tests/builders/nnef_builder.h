// Builds NNEF's tensor files and graphs for tests, right or wrong.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tests/builders/params_builder.h"
#include "tests/support/memory_folder.h"

namespace weightfs::test::nnef {

enum ItemType : uint16_t { kFloat = 0, kUnsigned = 1, kQuantizedSigned = 3, kSigned = 4, kBool = 5 };

/// A tensor file; the size in its header is that of `bytes`.
inline std::string tensor_file(const std::vector<uint32_t>& dims, uint32_t bits, uint16_t type,
                               std::string_view bytes) {
  std::string out = "\x4E\xEF\1" + little(0, 1) + little(bytes.size(), 4) + little(dims.size(), 4);
  for (size_t i = 0; i < 8; ++i) out += little(i < dims.size() ? dims[i] : 0, 4);
  out += little(bits, 4) + little(type, 2);
  return out + std::string(128 - out.size(), '\0') + std::string(bytes);
}

inline constexpr std::string_view kGraph =
    "version 1.0;\n\n# a comment\ngraph net(x) -> (y)\n{\n    x = external<scalar>(shape = [1, 2]);\n"
    "    w = variable<scalar>(shape = [2, 2], label = \"fc/w\");\n"
    "    b = variable<scalar>(shape = [3], label = 'b');\n    y = linear(x, w, b);\n}\n";

inline Files small_nnef_files() {
  return {{"b.dat", tensor_file({3}, 1, kBool, "\xA0")},
          {"fc/w.dat", tensor_file({2, 2}, 16, kFloat, "aabbccdd")},
          {"graph.nnef", std::string(kGraph)}};
}

}  // namespace weightfs::test::nnef
