// Tokens that say to a registry who asks: how they are asked for, with an Ollama key or as Docker does it.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cache/http/client.h"
#include "cache/registry/auth_challenge.h"
#include "cache/registry/docker_config.h"
#include "cache/registry/signature.h"

namespace weightfs {

struct Token {
  std::string value;
  int64_t lifetime = 60;  ///< in seconds
};

/// What makes one request different from the next; tests give their own.
struct Chance {
  std::function<int64_t()> seconds;    ///< since 1970
  std::function<std::string()> nonce;  ///< 16 random bytes, in base 64 for URLs
  static Chance of_system();
};

/// `parameters` as Go's url.Values writes them, in which Ollama signs them: sorted by name, those of one name in their
/// order, a space as '+', everything but letters, digits and -_.~ as %XX.
std::string query_of(std::vector<std::pair<std::string, std::string>> parameters);

/// The URL at which the challenge's token is asked for: its realm, with service, every word of scope, and `more` in the
/// query.
std::string token_url(const Challenge& bearer, std::vector<std::pair<std::string, std::string>> more = {});

/// The value of the Authorization header for a login (RFC 7617).
std::string basic(const Login& login);

/// The value of the Authorization header for a GET of `url`, signed as Ollama does (auth/auth.go): the public key and
/// the signature, both in base 64. The text that is signed holds the URL as it is asked.
Result<std::string> signature(const SigningKey& key, const std::string& url);

/// Where the realm of a challenge may lead: one from a public address to public addresses only, so that a registry
/// cannot make whoever reads from it ask the services of his own machine and network.
enum class Reach { anywhere, only_public };

/// Asks for a token as Docker does (distribution's "Token Authentication Specification"), with the login if there is
/// one. Fails with unreachable, and with unsupported when the answer is no token, or the realm must not be asked.
Result<Token> plain_token(Http& http, const Challenge& bearer, const std::optional<Login>& login, Reach reach,
                          const std::atomic<bool>& stop);

/// Asks for a token as Ollama does (server/auth.go): the URL, with a time and a nonce, is signed.
Result<Token> signed_token(Http& http, const Challenge& bearer, const SigningKey& key, const Chance& chance,
                           Reach reach, const std::atomic<bool>& stop);

}  // namespace weightfs
