// Builds MXNet's .params files for tests, right or wrong.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tests/builders/params_builder.h"

namespace weightfs::test::mxnet {

inline constexpr uint64_t kVersion1 = 0xF993FAC8, kVersion2 = 0xF993FAC9, kVersion3 = 0xF993FACA;

inline std::string shape(const std::vector<uint64_t>& sizes) {
  std::string out = little(sizes.size(), 4);
  for (const uint64_t size : sizes) out += little(size);
  return out;
}

/// A dense array of version 2 or 3.
inline std::string array(const std::vector<uint64_t>& sizes, uint64_t type, std::string_view data,
                         uint64_t version = kVersion2) {
  return little(version, 4) + little(0, 4) + shape(sizes) + little(1, 4) + little(0, 4) + little(type, 4) +
         std::string(data);
}

inline std::string list(const std::vector<std::string>& arrays, const std::vector<std::string>& names) {
  std::string out = little(0x112) + little(0) + little(arrays.size());
  for (const std::string& each : arrays) out += each;
  out += little(names.size());
  for (const std::string& name : names) out += little(name.size()) + name;
  return out;
}

inline std::string small_mxnet() {
  return list({array({2}, 0, "01234567"), array({3}, 5, "abc"), array({0, 2}, 3, "", kVersion3)},
              {"arg:w", "aux:b", "arg:e/f"});
}

}  // namespace weightfs::test::mxnet
