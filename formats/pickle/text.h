// Numbers and texts as pickles spell them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace weightfs::pickle {

/// A decimal number that fits; nothing otherwise.
std::optional<int64_t> parse_integer(std::string_view digits);
std::optional<double> parse_real(std::string_view digits);

/// Whether `digits` is a decimal integer of any length.
bool is_decimal(std::string_view digits);

/// The decimal digits of a little-endian integer in two's complement; "0" for no bytes.
std::string decimal(std::string_view little_endian);

/// UTF-8 of Python's raw-unicode-escape: Latin-1 with \uXXXX and \UXXXXXXXX.
std::string unescape_unicode(std::string_view line);

/// A quoted string of protocol 0 without its quotes; escapes stay as they are.
std::string unquote(std::string_view line);

}  // namespace weightfs::pickle
