// The limits of a TOML text, checked before toml++ sees it: toml++ 3.3 destroys and converts its tables recursively,
// bounds only the depth of brackets, and searches its lists of tables one by one.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/budget.h"

namespace weightfs {

/// The cost of parsing a TOML text: an upper bound in units of Cost::value.
struct TomlSize {
  uint64_t kept = 0;       ///< of the resulting Map
  uint64_t temporary = 0;  ///< of toml++'s own tree, which is freed with the parser
};

/// Reads `text` once, without recursion. Fails with unsupported where it is nested deeper than kMaxDepth, headers,
/// dotted keys, arrays and inline tables added up, and as Budget::charge does when `budget` cannot afford the time. Is
/// right up to the first error in `text`, where toml++ stops too. Charges the time, but no values.
Result<TomlSize> measure_toml(std::string_view text, Budget& budget);

}  // namespace weightfs
