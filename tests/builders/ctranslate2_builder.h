// Builds CTranslate2's model.bin for tests, right or wrong.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tests/builders/params_builder.h"

namespace weightfs::test::ctranslate2 {

inline std::string text(std::string_view text) { return little(text.size() + 1, 2) + std::string(text) + '\0'; }

/// The beginning up to the number of variables, from version 2 on.
inline std::string header(uint32_t version, std::string_view spec = "TransformerSpec") {
  return little(version, 4) + text(spec) + little(7, 4);
}

/// A variable of version 4 or later: its bytes follow their number.
inline std::string variable(std::string_view name, const std::vector<uint32_t>& dims, uint8_t type,
                            std::string_view bytes) {
  std::string out = text(name) + little(dims.size(), 1);
  for (const uint32_t size : dims) out += little(size, 4);
  return out + little(type, 1) + little(bytes.size(), 4) + std::string(bytes);
}

/// A variable of an earlier version, with the size and the number of its items.
inline std::string old_variable(std::string_view name, const std::vector<uint32_t>& dims, uint8_t item, uint32_t items,
                                std::string_view bytes) {
  std::string out = text(name) + little(dims.size(), 1);
  for (const uint32_t size : dims) out += little(size, 4);
  return out + little(item, 1) + little(items, 4) + std::string(bytes);
}

/// A matrix of int8, a vector of float16, a setting, a variable of a wrong size, and a second name.
inline std::string small_ctranslate2() {
  return header(6) + little(4, 4) + variable("layer/weight", {2, 3}, 1, "abcdef") +
         variable("layer/bias", {2}, 4, "bias") + variable("heads", {}, 2, "\xFE\xFF") +
         variable("short", {4}, 1, "abc") + little(1, 4) + text("tied") + text("layer/weight");
}

}  // namespace weightfs::test::ctranslate2
