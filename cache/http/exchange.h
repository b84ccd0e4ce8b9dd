// A single HTTP exchange over a libcurl connection, without redirects; client.cc combines exchanges to requests. Every
// connection is checked against the address policy of the URL.
#pragma once

#include <netinet/in.h>

#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "cache/http/request.h"

namespace weightfs::http {

/// A parsed URL.
struct Url {
  std::string text;  ///< normalized, without the fragment
  std::string scheme;
  std::string host;
  std::string origin;
};

/// Fails with unsupported when the URL must not be fetched.
Result<Url> parse_url(const std::string& text);

/// Which addresses may be connected to.
struct AddressPolicy {
  bool public_only = false;
  bool loopback_only = false;
  std::string_view subject = {};

  /// The reason why an address is refused; empty if it is allowed. No address is always refused.
  std::string refusal(const std::optional<in6_addr>& address) const;
};

/// A handle without options; run_exchange() sets them.
CurlHandlePtr new_curl_handle();

/// The parameters of an exchange.
struct ExchangeRequest {
  const Options& options;
  const Request& request;
  const ResponseHandler& handler;
  Url url;
  AddressPolicy policy = {};
  std::vector<std::string> credential_headers = {};
  bool may_be_challenged = false;
  bool is_expected_to_answer = false;  ///< if it does not, it is taken for out of reach, and not for a wrong name
};

/// The result. The response handler was called only for `final`.
struct ExchangeResult {
  enum class Kind { final, redirect, challenge };
  Kind kind;
  Response response;
  std::string challenge_body;  ///< the first bytes of the body of a challenge
};

Result<ExchangeResult> run_exchange(CurlHandle& handle, const ExchangeRequest& request, const std::stop_token& stop);

}  // namespace weightfs::http
