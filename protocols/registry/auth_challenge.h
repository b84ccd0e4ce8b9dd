// Parses the WWW-Authenticate header of a response 401 (RFC 9110, section 11.6.1).
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weightfs::registry {

/// An authentication scheme and its parameters.
struct AuthChallenge {
  std::string scheme;                                                ///< lower case: "bearer", "basic"
  std::vector<std::pair<std::string, std::string>> parameters = {};  ///< names in lower case

  /// The first parameter of this name (in lower case); empty if missing.
  std::string_view parameter(std::string_view name) const;
};

/// The challenges of one header, in order. Invalid parts are skipped, with one exception: a quotation mark in a quoted
/// text that is not followed by a comma is part of the text, as in Ollama (server/auth.go).
std::vector<AuthChallenge> parse_challenges(std::string_view header);

}  // namespace weightfs::registry
