// HTTP requests and responses, and the options of a client.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "cache/certificates.h"
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
  bool has_fetcher_ended = false;                                   ///< no request can be sent any more
  bool is_outage = false;  ///< the usual number of attempts has failed; see Client::wait_for_network()
};

class UsedUp;
inline constexpr size_t kMaxConnections = 64;  ///< see Options::connections
inline constexpr uint64_t kMinRate = 1024;     ///< see Options::limit_rate

struct Options {
  std::chrono::milliseconds connect_timeout{10'000};
  std::chrono::milliseconds stall_timeout{30'000};  ///< maximum time without data
  /// Minimum bytes per second during the response: the average over twice the stall timeout, counting only time spent
  /// waiting for the network.
  uint64_t min_speed = 1024;
  int max_retries = 5;              ///< of a request, without progress in between
  bool allow_private_urls = false;  ///< allow URLs in containers to reach loopback, link-local and private addresses
  bool insecure = false;            ///< allow the user's http:// URLs to reach other hosts than loopback
  bool has_source_token = false;    ///< the user has a token for the server of the URLs that are sources
  std::set<std::string> keyed_origins = {};  ///< of URLs that are sources: the user has files with keys for them
  size_t connections = 0;   ///< requests to one origin at a time, at most kMaxConnections; 0: any number
  uint64_t limit_rate = 0;  ///< bytes per second of all bodies together, at least kMinRate; 0: any number
  std::string user_agent = "weightfs";
  /// What small requests to APIs are not repeated to (download::request_with_retry); null: everything is.
  std::shared_ptr<UsedUp> used_up = nullptr;
  /// Called before each wait for another attempt, with its length. From any thread; may be null.
  std::function<void(const Waiting& waiting, std::chrono::milliseconds delay)> on_retry = {};
  /// Called when a server answers after that, with the time since the first of these waits. From any thread; may be
  /// null.
  std::function<void(std::chrono::milliseconds after)> on_answer = {};
};

struct Response;

/// Where keys are from, and when they were read: never the keys.
struct KeyOrigin {
  std::string from = {};  ///< "$HF_TOKEN", or the path of a file; empty: there are no keys
  std::chrono::sys_seconds read = {};
  std::optional<std::chrono::sys_seconds> expires = {};  ///< nothing: never, or it is not known

  bool operator==(const KeyOrigin&) const = default;
};

inline std::chrono::sys_seconds current_second() {
  return std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
}

/// The keys that a request was sent with.
struct SentKeys {
  uint64_t generation = 0;         ///< Credentials::generation() at that time
  std::string authorization = {};  ///< the value of the Authorization header; empty: none
};

/// Authenticates requests to one host.
class Credentials {
 public:
  virtual ~Credentials() = default;
  Credentials() = default;
  Credentials(const Credentials&) = delete;
  Credentials& operator=(const Credentials&) = delete;

  /// Called before each exchange that uses them: obtains or renews keys that expire. Fails if there are none that may
  /// be sent; then nothing is sent. Thread-safe.
  virtual Result<void> prepare(const std::stop_token& /*stop*/) { return {}; }

  /// The value of the Authorization header; empty for none. Thread-safe.
  virtual std::string authorization() { return {}; }

  /// Answers a challenge: a response 401 to a request with the keys `sent`. Returns whether there are others now.
  /// Thread-safe; several threads may report the same `sent`.
  virtual Result<bool> on_unauthorized(const Response& /*response*/, const SentKeys& /*sent*/,
                                       const std::stop_token& /*stop*/) {
    return false;
  }

  /// A number for the keys that authorization() and headers() use now; 0: they are never read again.
  virtual uint64_t generation() { return 0; }

  /// A server refused a request with the keys `sent`, a generation: whether there are others now. Thread-safe.
  virtual bool read_again(uint64_t /*sent*/, const std::stop_token& /*stop*/) { return false; }

  /// Further headers for a request to `url` and for each redirect to the same scheme, host and port: a signature of
  /// this request, headers of the user's configuration. Thread-safe.
  virtual std::vector<std::string> headers(std::string_view /*method*/, const std::string& /*url*/) { return {}; }

  /// As headers(), for a request that also has the headers `sent`, if a signature covers them.
  virtual std::vector<std::string> headers_beside(std::string_view method, const std::string& url,
                                                  const std::vector<std::string>& /*sent*/) {
    return headers(method, url);
  }

  /// Secret parameters for the query of these requests: "sig=…"; empty for none. Response::url is without them. A
  /// redirect of such a request is refused: its target may repeat them.
  virtual std::string query() { return {}; }

  /// The authorities that a server of these requests is trusted by; empty: those of the system. Thread-safe.
  virtual Certificates certificates() { return {}; }

  /// The source of the keys that were used last.
  virtual KeyOrigin key_origin() { return {}; }

  /// The credentials used last, for messages ("tried as alice"); empty if none were requested.
  virtual std::string description() { return {}; }
};

using CredentialsPtr = std::shared_ptr<Credentials>;

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

/// What a request is for. A process without network can only ask for content (cache/fetcher.h).
enum class Purpose {
  content,
  keys,      ///< of the user, from a service: a redirect is refused
  metadata,  ///< the same from a service of the machine (is_metadata_address()): also without a proxy, and plain http
             ///< reaches these addresses, 169.254.0.0/16 and loopback, whatever the options permit
};

/// Which requests are sent first.
enum class Urgency {
  waited_for,  ///< a reader waits for the response
  ahead,       ///< of the readers: prefetched
};

struct Request {
  enum class Method { get, head, post, put };

  std::string url;
  Trust trust = Trust::user;
  Method method = Method::get;
  /// "Accept: text/plain". Sent to every target of a redirect, too: secrets belong to `credentials`.
  std::vector<std::string> headers = {};
  bool encoded = false;  ///< request gzip, br, deflate or zstd; encoded bodies are decoded in any case
  /// Sent only to the scheme, host and port of `url`; null for none.
  CredentialsPtr credentials = nullptr;
  bool public_only = false;  ///< connect only to public addresses, because a public server named `url`
  Purpose purpose = Purpose::content;
  std::string body = {};  ///< of a POST: application/x-www-form-urlencoded
  /// As Credentials::certificates(), for a request without such credentials: for the scheme, host and port of `url`.
  Certificates certificates = {};
  /// The request fails with network at this time.
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
  Urgency urgency = Urgency::waited_for;
};

/// A response without its body.
struct Response {
  int status = 0;
  std::vector<std::pair<std::string, std::string>> headers = {};  ///< names in lower case, values trimmed
  std::string url;                                                ///< the final URL after redirects
  bool from_public = false;                                       ///< the server's address is known to be public
  /// The request was not sent: an earlier response with this status has requested the delay in `retry-after`.
  bool is_deferred = false;

  /// The first header of this name (in lower case); empty if there is none.
  std::string_view header(std::string_view name) const;

  /// Whether a content coding was applied to the body, by its Content-Encoding. Objects are also stored with words
  /// there that are no registered coding, like "aws-chunked" and "utf-8": their bytes are as they are (RFC 9110, 8.4).
  bool is_encoded() const;
  /// Whether it has such words only, beside "identity".
  bool has_unknown_coding() const;
};

/// Whether a server may answer a repetition of the request otherwise: 408, 425, 429 and 5xx.
constexpr bool is_temporary(int status) {
  return status == 408 || status == 425 || status == 429 || (status >= 500 && status != 501);
}

/// Receives a response. The functions are called in the thread of perform(), and end the request by failing.
struct ResponseHandler {
  /// Called once before the body, with the final response: not for redirects and answered challenges.
  std::function<Result<void>(const Response& response)> on_response;
  /// Called with the next decoded bytes. May block.
  std::function<Result<void>(std::span<const std::byte> bytes)> on_body;
  /// Called when all bytes that have arrived were passed to on_body, before more are waited for. Also each second while
  /// the request waits for its turn, or its bytes for Options::limit_rate. May be null.
  std::function<Result<void>()> on_wait = {};
};

/// A libcurl handle with its open connections.
struct CurlHandle;
using CurlHandlePtr = std::shared_ptr<CurlHandle>;

}  // namespace weightfs::http
