// Media types with parameters, `application/x; name="a b"; shape=1,2`, which describe the blobs of a manifest. Parsed
// by the rules of Go's mime.ParseMediaType (RFC 2045, section 5.1), as the writers of manifests use Go.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace weightfs::ollama {

struct MediaType {
  std::string type;                                             ///< "application/x", in lower case
  std::vector<std::pair<std::string, std::string>> parameters;  ///< names in lower case, each once

  /// The value of a parameter; `name` is in lower case; null if there is none.
  const std::string* find(std::string_view name) const;
};

/// Parses a media type. A quoted value may hold any characters; a backslash escapes special ones. An unquoted value
/// extends to the next `;`, even if it is not a token (manifests have `shape=1,2`). Repeated parameters must have equal
/// values. Split values (RFC 2231, `name*0=`) are parameters of that name. Fails with corrupt.
Result<MediaType> parse_media_type(std::string_view text);

/// The type without parameters, in lower case; also works if the parameters are invalid.
std::string without_parameters(std::string_view media_type);

}  // namespace weightfs::ollama
