// Base64 (RFC 4648) for keys, signatures and logins.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace weightfs {

/// The standard alphabet, with padding (section 4).
std::string base64(std::string_view bytes);

/// The alphabet for URLs, without padding (section 5).
std::string base64url(std::string_view bytes);

/// Decodes the standard alphabet; nothing for an invalid text: other characters, wrong padding, or nonzero bits after
/// the last byte.
std::optional<std::string> from_base64(std::string_view text);

}  // namespace weightfs
