// What a server asks for when it answers 401: the WWW-Authenticate header (RFC 9110, section 11.6.1).
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weightfs {

/// One way to say who asks.
struct Challenge {
  std::string scheme;                                                ///< in lower case: "bearer", "basic"
  std::vector<std::pair<std::string, std::string>> parameters = {};  ///< names in lower case

  /// The first one of this name (in lower case); empty when there is none.
  std::string_view parameter(std::string_view name) const;
};

/// The challenges of one header, in order. What breaks the grammar is left out, with one exception: a quotation mark in
/// a quoted text that no comma follows is part of the text, as Ollama reads it (server/auth.go).
std::vector<Challenge> parse_challenges(std::string_view header);

}  // namespace weightfs
