// HTTP as whoever fetches needs it: one request, its redirects followed, its answer's body as it comes. What may be
// asked at all (schemes, addresses) is decided here, for every hop. libcurl is known to what lies below this header
// only: http_hop.cc has its transfers, http_url.cc its parser of URLs, so that nobody reads one otherwise than it is
// asked.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace weightfs {

/// Who named a URL. What a container names is fetched only over http and https, without credentials, and never from an
/// address that is not public.
enum class Trust { user, container };

struct HttpOptions {
  std::chrono::milliseconds connect_timeout{10'000};
  std::chrono::milliseconds stall_timeout{30'000};  ///< the longest that nothing may arrive
  /// Bytes per second that arrive at least, once an answer has begun: on average of twice the stall timeout, of which
  /// only what is spent on waiting for the network counts.
  uint64_t least_speed = 1024;
  bool allow_private_urls = false;  ///< let containers name loopback, link-local and private addresses
  bool insecure = false;            ///< let the user's own http:// URLs lead elsewhere than to loopback
  std::string user_agent = "weightfs";
};

/// An answer 401.
struct Denial {
  std::vector<std::string> challenges;  ///< its WWW-Authenticate headers
  std::string sent;                     ///< what authorization() gave to be asked with
  bool from_public = false;             ///< as Answer::from_public
};

/// Says who asks, to one host.
class Credentials {
 public:
  virtual ~Credentials() = default;
  Credentials() = default;
  Credentials(const Credentials&) = delete;
  Credentials& operator=(const Credentials&) = delete;

  /// The value of the Authorization header; empty for none. Callable from any thread.
  virtual std::string authorization() = 0;

  /// Whether authorization() has another value now than the one that was denied. Callable from any thread; several may
  /// come at once with the same `sent`.
  virtual Result<bool> challenged(const Denial& denial, const std::atomic<bool>& stop) = 0;

  /// With what the host was told last who asks, for a message; empty when it never wanted to know.
  virtual std::string tried() { return {}; }
};

struct Request {
  enum class Method { get, head };

  std::string url;
  Trust trust = Trust::user;
  Method method = Method::get;
  std::vector<std::string> headers = {};  ///< "Accept: text/plain"
  bool encoded = false;  ///< ask for gzip, br, deflate, zstd; whatever comes encoded is decoded, asked for or not
  /// Sent only to scheme, host and port of `url`; null for none.
  std::shared_ptr<Credentials> credentials = nullptr;
  bool only_public = false;  ///< never from an address that is not: a public one has named `url`
  /// Unreachable when it is not over by then.
  std::chrono::steady_clock::time_point until = std::chrono::steady_clock::time_point::max();
};

/// An answer without its body.
struct Answer {
  int status = 0;
  std::vector<std::pair<std::string, std::string>> headers;  ///< names in lower case, values without outer white space
  std::string url;                                           ///< the one that gave it, after redirects
  bool from_public = false;  ///< the address that gave it is a public one, as far as it is known

  /// The first header of this name (in lower case).
  std::optional<std::string_view> header(std::string_view name) const;
};

/// Takes the body of an answer. Both are called in the thread that performs the request.
struct Receiver {
  /// Once, before the body, with the answer that is no redirect and no challenge that could be met. A failure ends the
  /// request with it.
  std::function<Result<void>(const Answer& answer)> answered;
  /// The next bytes, decoded. It may wait as long as it likes. A failure ends the request with it.
  std::function<Result<void>(std::span<const std::byte> bytes)> received;
};

/// Callable from any thread; connections are kept and used again.
class Http {
 public:
  explicit Http(HttpOptions options);
  ~Http();
  Http(const Http&) = delete;
  Http& operator=(const Http&) = delete;

  /// Performs the request; returns when all of the body was received. Follows at most 10 redirects, each checked as the
  /// first URL is; never from https to http; one to an address that is not public only when the first URL's was not
  /// either. Proxies as curl has them (http_proxy, https_proxy, all_proxy, no_proxy): through one, addresses are
  /// checked only where the URL spells them. Fails with unreachable when the network does not give it (no connection,
  /// stalled, too slow, cut short; it says which), or `stop` became true (looked at ten times a second); with
  /// unsupported when a rule forbids the URL, naming the rule. A status is no failure here.
  Result<void> perform(const Request& request, const Receiver& receiver, const std::atomic<bool>& stop);

  const HttpOptions& options() const;

 private:
  struct Pool;
  std::unique_ptr<Pool> pool_;
};

using HttpPtr = std::shared_ptr<Http>;

/// Scheme, host and port of a URL ("https://example.com:443"), by which credentials are kept to one place; empty when
/// it is no URL of http or https.
std::string origin_of(const std::string& url);

/// `reference` as seen from `base` (RFC 3986, section 5); empty when it is none.
std::string resolved_url(const std::string& base, const std::string& reference);

/// Whether a redirect may lead from one URL to the other: never out of https.
bool may_redirect(const std::string& from, const std::string& to);

/// A URL without what must not be logged or kept: user, password and query.
std::string printable_url(const std::string& url);

}  // namespace weightfs
