// Requests bearer tokens for a registry, with an Ollama key or as Docker does.
#pragma once

#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "cache/http/client.h"
#include "protocols/registry/auth_challenge.h"
#include "protocols/registry/docker_config.h"
#include "protocols/registry/signature.h"

namespace weightfs::registry {

struct Token {
  std::string value;
  int64_t lifetime = 60;  ///< in seconds
};

/// Clock and nonce source; tests inject their own.
struct ClockAndNonce {
  std::function<int64_t()> seconds;    ///< since 1970
  std::function<std::string()> nonce;  ///< 16 random bytes in base64url
  static ClockAndNonce of_system();
};

/// Encodes parameters like Go's url.Values, which Ollama signs: sorted by name (stable), a space as '+', everything but
/// letters, digits and -_.~ as %XX.
std::string query_of(std::vector<std::pair<std::string, std::string>> parameters);

/// The URL for a token request: the realm with service, each scope, and `more` in the query.
std::string token_url(const AuthChallenge& bearer, std::vector<std::pair<std::string, std::string>> more = {});

/// The value of the Authorization header for a login (RFC 7617).
std::string basic_authorization(const Login& login);

/// The value of the Authorization header for a GET of `url`, signed like Ollama (auth/auth.go): public key and
/// signature in base64. The signed text includes the URL exactly as requested.
Result<std::string> signature(const SigningKey& key, const std::string& url);

/// Requests the token at `url` (distribution's "Token Authentication Specification"); `authorization` may be empty.
/// Fails with network, and with unsupported when the response has no token or the URL is refused. `public_only`: a
/// public registry named the URL, which must then be public too, so that the registry cannot send requests to the
/// user's machine and network.
Result<Token> request_token(http::Client& http, const std::string& url, const std::string& authorization,
                            bool public_only, const std::stop_token& stop);

/// Requests a token of the realm for an identity token (distribution's "Oauth2 Token Authentication", the grant
/// refresh_token): by POST, so that it is in no URL. Otherwise as request_token().
Result<Token> exchange_identity_token(http::Client& http, const AuthChallenge& bearer, const std::string& scope,
                                      const std::string& identity_token, bool public_only, const std::stop_token& stop);

}  // namespace weightfs::registry
