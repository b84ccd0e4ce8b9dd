// Authenticates requests to one registry: with a token for the user's Ollama key or login, with that login itself, or
// with an anonymous token. Reads no file and sends no request before the registry sends a challenge.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "cache/http/client.h"
#include "protocols/registry.h"
#include "protocols/registry/cloud_logins.h"
#include "protocols/registry/logins.h"
#include "protocols/registry/token.h"

namespace weightfs::registry {

class Credentials final : public http::Credentials {
 public:
  /// `registry` is a URL of the registry, or of a repository there, and `headers` are sent with each request to it.
  /// `clouds` has logins for want of a stored one; null: there are none.
  /// When several threads are challenged, one requests the token and the others wait.
  Credentials(http::ClientPtr http, const std::string& registry, CredentialPaths paths,
              std::vector<std::string> headers = {}, ClockAndNonce clock = ClockAndNonce::of_system(),
              std::shared_ptr<const CloudLogins> clouds = nullptr);

  /// The current token or login until it expires.
  std::string authorization() override;

  /// Answers a Bearer challenge with a token (docs/formats/ollama.md):
  /// - for the Ollama key, when the realm has the registry's scheme, host and port, and either the service is "ollama",
  ///   or the realm's path ends in /v2/token and there is no docker login. In the second case, a registry that does not
  ///   know the key is asked for an anonymous token;
  /// - otherwise for the docker login if there is one, else an anonymous token. The realm may be on another host over
  ///   https, or on loopback if the registry is; the login is sent only over https or loopback.
  /// If the challenge came from a public address, the realm must be public, too. Answers a Basic challenge with the
  /// docker login, by the same rule. A login of a cloud is used like a docker login. Returns false when nothing is left
  /// to try. Fails with unsupported when a rule or the token server refuses, or when a required key or docker config
  /// cannot be read; otherwise as request_keys_with_retry().
  Result<bool> on_unauthorized(const http::Response& response, const http::SentKeys& sent,
                               const std::stop_token& stop) override;

  /// A registry may answer 403 for a token that it takes for expired: one that is older than 10 seconds is dropped, so
  /// that the registry sends a challenge for the next one.
  uint64_t generation() override;
  bool read_again(uint64_t sent, const std::stop_token& stop) override;

  std::vector<std::string> headers(std::string_view, const std::string&) override { return headers_; }

  std::string description() override;
  http::KeyOrigin key_origin() override;

 private:
  // A value for the Authorization header.
  struct Authorization {
    std::string authorization;  // empty: none
    int64_t lifetime = 0;       // in seconds
    std::string description;
    std::string keys_from = {};               // the path of the key or file of logins that was used; empty: anonymous
    std::optional<int64_t> keys_expire = {};  // as FoundLogin::expiry
  };

  bool is_current() const;
  Result<bool> renew(const http::Response& response, const std::string& sent, const std::stop_token& stop,
                     std::unique_lock<std::mutex>& lock);

  Result<Authorization> authorize(const http::Response& response, const std::stop_token& stop);
  Result<Authorization> with_token(const AuthChallenge& bearer, bool public_only, const std::stop_token& stop);
  Result<Authorization> with_key(const AuthChallenge& bearer, bool public_only, const std::stop_token& stop);
  Result<Authorization> with_login(const AuthChallenge& bearer, const FoundLogin& found, bool public_only,
                                   const std::stop_token& stop);
  Result<Authorization> with_basic_login(const std::stop_token& stop);
  static Result<Authorization> with_description(const Result<Token>& token, std::string description,
                                                std::string keys_from);
  std::string default_scope() const;
  std::string anonymous_reason(const AuthChallenge& bearer, const FoundLogin& found) const;
  Result<FoundLogin> login_for(const std::string& origin, const std::stop_token& stop) const;

  const http::ClientPtr http_;
  const std::string host_;        // with the port if the URL has one
  const std::string origin_;      // of the registry
  const std::string repository_;  // empty if the URL has none
  const CredentialPaths paths_;
  const std::vector<std::string> headers_;  // "Name: value"
  const ClockAndNonce clock_;
  const std::shared_ptr<const CloudLogins> clouds_;

  std::mutex mutex_;  // guards the rest
  std::condition_variable_any renewed_;
  bool is_renewing_ = false;
  uint64_t generation_ = 0;  // of authorization_
  int64_t renewed_at_ = 0;
  std::chrono::sys_seconds read_ = {};   // when its keys were
  std::optional<Result<bool>> renewal_;  // the result of the last one; nothing if its thread was stopped or cancelled
  Authorization authorization_;
  int64_t expires_ = 0;
};

}  // namespace weightfs::registry
