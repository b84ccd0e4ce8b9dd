// HTTP requests and responses, and the options of a client.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "cache/url.h"

namespace weightfs::http {

/// The origin of a URL. A URL from a container is fetched only over http and https, without credentials, and only from
/// public addresses.
enum class Trust { user, container };

/// The requests that wait for another attempt.
struct Waiting {
  uint64_t requests = 0;
  std::optional<std::chrono::system_clock::time_point> since = {};  ///< no server has answered since then
  std::string reason = {};                                          ///< of the last failure
  bool is_outage = false;  ///< the usual number of attempts has failed; see Client::wait_for_network()
};

struct Options {
  std::chrono::milliseconds connect_timeout{10'000};
  std::chrono::milliseconds stall_timeout{30'000};  ///< maximum time without data
  /// Minimum bytes per second during the response: the average over twice the stall timeout, counting only time spent
  /// waiting for the network.
  uint64_t min_speed = 1024;
  int max_retries = 5;              ///< of a request, without progress in between; some are retried less often
  bool allow_private_urls = false;  ///< allow URLs in containers to reach loopback, link-local and private addresses
  bool insecure = false;            ///< allow the user's http:// URLs to reach other hosts than loopback
  std::string user_agent = "weightfs";
  /// Called before each wait for another attempt, with its length. From any thread; may be null.
  std::function<void(const Waiting& waiting, std::chrono::milliseconds delay)> on_retry = {};
  /// Called when a server answers after that, with the time since the first of these waits. From any thread; may be
  /// null.
  std::function<void(std::chrono::milliseconds after)> on_answer = {};
};

struct Response;

/// Authenticates requests to one host.
class Credentials {
 public:
  virtual ~Credentials() = default;
  Credentials() = default;
  Credentials(const Credentials&) = delete;
  Credentials& operator=(const Credentials&) = delete;

  /// The value of the Authorization header; empty for none. Thread-safe.
  virtual std::string authorization() { return {}; }

  /// Answers a challenge: a response 401 to a request with the value `sent`. Returns whether authorization() differs
  /// from it now. Thread-safe; several threads may report the same `sent`.
  virtual Result<bool> on_unauthorized(const Response& /*response*/, const std::string& /*sent*/,
                                       const std::stop_token& /*stop*/) {
    return false;
  }

  /// Further headers for a request to `url` and for each redirect to the same scheme, host and port: a signature of
  /// this request, headers of the user's configuration. Thread-safe.
  virtual std::vector<std::string> headers(std::string_view /*method*/, const std::string& /*url*/) { return {}; }

  /// The credentials used last, for messages ("tried as alice"); empty if none were requested.
  virtual std::string description() { return {}; }
};

/// Credentials with one Authorization header for every request.
class FixedCredentials final : public Credentials {
 public:
  explicit FixedCredentials(std::string authorization, std::string description = {})
      : authorization_(std::move(authorization)), description_(std::move(description)) {}
  std::string authorization() override { return authorization_; }
  std::string description() override { return description_; }

 private:
  const std::string authorization_;
  const std::string description_;
};

struct Request {
  enum class Method { get, head };

  std::string url;
  Trust trust = Trust::user;
  Method method = Method::get;
  /// "Accept: text/plain". Sent to every target of a redirect, too: secrets belong to `credentials`.
  std::vector<std::string> headers = {};
  bool encoded = false;  ///< request gzip, br, deflate or zstd; encoded bodies are decoded in any case
  /// Sent only to the scheme, host and port of `url`; null for none.
  std::shared_ptr<Credentials> credentials = nullptr;
  bool public_only = false;  ///< connect only to public addresses, because a public server named `url`
  /// The request fails with network at this time.
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
};

/// A response without its body.
struct Response {
  int status = 0;
  std::vector<std::pair<std::string, std::string>> headers;  ///< names in lower case, values trimmed
  std::string url;                                           ///< the final URL after redirects
  bool from_public = false;                                  ///< the server's address is known to be public

  /// The first header of this name (in lower case); empty if there is none.
  std::string_view header(std::string_view name) const;
};

/// Whether a server may answer a repetition of the request otherwise: 408, 425, 429 and 5xx.
constexpr bool is_temporary(int status) { return status == 408 || status == 425 || status == 429 || status >= 500; }

/// Receives a response. The functions are called in the thread of perform(), and end the request by failing.
struct ResponseHandler {
  /// Called once before the body, with the final response: not for redirects and answered challenges.
  std::function<Result<void>(const Response& response)> on_response;
  /// Called with the next decoded bytes. May block.
  std::function<Result<void>(std::span<const std::byte> bytes)> on_body;
  /// Called when all bytes that have arrived were passed to on_body, before more are waited for; may be null.
  std::function<Result<void>()> on_wait = {};
};

/// A libcurl handle with its open connections.
struct CurlHandle;
using CurlHandlePtr = std::shared_ptr<CurlHandle>;

}  // namespace weightfs::http
