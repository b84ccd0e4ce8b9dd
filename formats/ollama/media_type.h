// Media types with parameters, `application/x; name="a b"; shape=1,2`: in the layers of a manifest they say what a blob
// is. By the rules of Go's mime.ParseMediaType (RFC 2045, section 5.1), because the writers of manifests are in Go.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace weightfs {

struct MediaType {
  std::string type;                                             ///< "application/x", in lower case
  std::vector<std::pair<std::string, std::string>> parameters;  ///< names in lower case, each once

  /// The value of a parameter, whose name is given in lower case; null when there is none.
  const std::string* find(std::string_view name) const;
};

/// Reads one. A quoted value may hold anything, a backslash before a special character escapes it; a value without
/// quotes goes on to the next `;`, be it a token or not (manifests have `shape=1,2`). Of parameters that are there
/// twice the values must be the same. Fails with corrupt. Values in pieces (RFC 2231, `name*0=`) are parameters of that
/// name.
Result<MediaType> parse_media_type(std::string_view text);

/// What stands before the parameters, in lower case: all that is left of one whose parameters cannot be read.
std::string without_parameters(std::string_view media_type);

}  // namespace weightfs
