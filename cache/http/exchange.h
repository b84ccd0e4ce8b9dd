// A single HTTP exchange over a libcurl connection, without redirects; direct_client.cc combines exchanges to requests.
// Every connection is checked against the address policy of the URL.
#pragma once

#include <netinet/in.h>

#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "cache/http/rate_limit.h"
#include "cache/http/request.h"
#include "cache/url.h"

namespace weightfs::http {

/// Which addresses may be connected to.
struct AddressPolicy {
  bool public_only = false;
  bool loopback_only = false;
  bool metadata = false;  ///< is_metadata_address() is permitted, and with loopback_only also 169.254.0.0/16
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
  std::string secret_query = {};   ///< sent behind that of the URL
  Certificates certificates = {};  ///< empty: those of the system
  bool may_be_challenged = false;
  bool may_be_refused = false;         ///< the keys can be read again
  bool is_expected_to_answer = false;  ///< if it does not, it is taken for out of reach, and not for a wrong name
  const std::string* client_certificate = nullptr;  ///< with its key (PEM); null: none
  RateLimit* rate = nullptr;                        ///< of all exchanges together; null: none
  bool is_decoded = true;  ///< libcurl refuses a body with a Content-Encoding that it does not know
};

/// The result. The response handler was called only for `final`.
struct ExchangeResult {
  enum class Kind {
    final,
    redirect,
    challenge,
    refusal,
    not_encoded,  ///< the body has to be requested without `is_decoded`
  };
  Kind kind;
  Response response;
  std::string body;  ///< the first bytes of the body of a challenge or refusal
};

Result<ExchangeResult> run_exchange(CurlHandle& handle, const ExchangeRequest& request, const std::stop_token& stop);

}  // namespace weightfs::http
