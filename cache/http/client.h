// An HTTP client: one request with its redirects, the body delivered as it arrives. Every hop is checked against the
// rules for schemes and addresses. Only exchange.cc and url.cc use libcurl; the same URL parser serves checks and
// requests.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "cache/http/request.h"

namespace weightfs::http {

/// Thread-safe; connections are reused.
class Client {
 public:
  explicit Client(Options options) : options_(std::move(options)) {}

  /// Performs the request; returns after the last byte of the body. Follows at most 10 redirects, each checked like the
  /// first URL; never from https to http, and to a non-public address only if the first one was not public either. Uses
  /// proxies like curl (http_proxy, https_proxy, all_proxy, no_proxy): through a proxy, only address literals are
  /// checked. Fails with network for network errors (no connection, stalled, too slow, truncated) and when `stop`
  /// is set (polled ten times a second); with unreachable if the server's certificate is not accepted, or no server of
  /// this origin has ever answered; with unsupported for another scheme, and with
  /// forbidden when a rule refuses the URL or its address. An error status is not a failure.
  Result<void> perform(const Request& request, const ResponseHandler& handler, const std::stop_token& stop);

  const Options& options() const { return options_; }

  /// From now on, requests that the network fails are repeated for this time at least. A server that the user named is
  /// waited for even if it has never answered; one that a container names may be gone for years, and is not. Without a
  /// call, requests are repeated as RetryPolicy says.
  void wait_for_network(std::chrono::milliseconds time) { patience_ = time; }
  std::chrono::milliseconds patience() const { return patience_; }

  Waiting waiting() const;

  /// A request that waits, from its construction to its destruction.
  class Wait {
   public:
    Wait(Client& client, const Error& error, std::chrono::milliseconds delay, bool is_outage);
    ~Wait();
    Wait(const Wait&) = delete;
    Wait& operator=(const Wait&) = delete;

   private:
    Client& client_;
  };

  /// The requests sent so far, redirects and challenges included, by origin ("https://example.com:443"). Beyond
  /// kMaxOrigins they are counted under "other".
  std::map<std::string, uint64_t> requests() const;
  static constexpr size_t kMaxOrigins = 32;

 private:
  // A handle for one request, which is counted.
  CurlHandlePtr take(const std::string& origin);
  void give_back(CurlHandlePtr handle, const std::string& origin);
  void record_answer(const std::string& origin, int status);
  bool is_expected_to_answer(const std::string& origin, Trust trust) const;

  const Options options_;
  std::atomic<std::chrono::milliseconds> patience_{};
  mutable std::mutex mutex_;                                 // guards the rest
  std::vector<std::pair<std::string, CurlHandlePtr>> idle_;  // with the origin of the newest connection of each
  std::map<std::string, uint64_t> requests_;
  std::set<std::string> answered_;  // origins that have; at most kMaxOrigins
  Waiting waiting_;
};

using ClientPtr = std::shared_ptr<Client>;

}  // namespace weightfs::http
