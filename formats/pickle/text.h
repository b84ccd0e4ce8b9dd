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

/// The bytes of a quoted string of protocol 0, as codecs.escape_decode() of CPython reads its escapes: those of
/// Python's bytes literals, also in octal digits; an unknown escape stands for itself. A string without quotes is as it
/// is. Nothing where CPython fails: for a backslash at the end, and for \x without two digits.
std::optional<std::string> unquote(std::string_view line);

}  // namespace weightfs::pickle
