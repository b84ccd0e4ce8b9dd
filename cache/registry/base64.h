// Base 64 (RFC 4648): how keys, signatures and logins are written where only text goes.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace weightfs {

/// The standard alphabet, with padding (section 4).
std::string base64(std::string_view bytes);

/// The alphabet for URLs, without padding (section 5).
std::string base64url(std::string_view bytes);

/// What a text in the standard alphabet says; nothing when it is no such text: another character, padding that is
/// missing or stands elsewhere than at the end, bits set behind the last byte.
std::optional<std::string> from_base64(std::string_view text);

}  // namespace weightfs
