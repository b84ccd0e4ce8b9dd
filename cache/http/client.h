// Requests over HTTP: one request with its redirects, the body delivered as it arrives. This process sends them
// (direct_client.h), or the fetcher does (cache/fetcher.h).
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "base/result.h"
#include "cache/http/keyring.h"
#include "cache/http/request.h"

namespace weightfs::http {

/// What a server has answered.
struct Answer {
  int last = 0;                                          ///< the last status
  int accepted = 0;                                      ///< the last one below 400; 0: none
  std::optional<std::chrono::seconds> clock_ahead = {};  ///< of this machine's, by its last Date
};

/// Thread-safe.
class Client : public std::enable_shared_from_this<Client> {
 public:
  explicit Client(Options options) : options_(std::move(options)) {}
  virtual ~Client() = default;
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  /// Performs the request; returns after the last byte of the body. Follows at most 10 redirects, each checked like the
  /// first URL; never from https to http, and to a non-public address only if no server before it was public. Uses
  /// proxies like curl (http_proxy, https_proxy, all_proxy, no_proxy): through a proxy, only address literals are
  /// checked. Fails with network for network errors (no connection, stalled, too slow, truncated) and when `stop`
  /// is set (polled ten times a second); with unreachable if the server's certificate is not accepted, or no server of
  /// this origin has ever answered; with unsupported for another scheme, and with
  /// forbidden when a rule refuses the URL or its address. An error status is not a failure.
  virtual Result<void> perform(const Request& request, const ResponseHandler& handler, const std::stop_token& stop) = 0;

  /// The user's credentials of this name, for requests of this client; never null. Fails if they cannot be read.
  virtual Result<CredentialsPtr> credentials(const CredentialsName& name) = 0;

  /// Those for a URL that is a source, or is beside it: the keys of --source-token-file and --header-file, without them
  /// the login for an https server.
  CredentialsName keys_of_source(const std::string& url) const;
  /// The credentials of that name; null if it is none. Fails as credentials() does.
  Result<CredentialsPtr> credentials_of_source(const std::string& url);

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

  /// The answers so far by origin, redirects and challenges included if this process sends the requests; at most
  /// kMaxOrigins.
  std::map<std::string, Answer> answers() const;

  /// Where the keys are from that were sent last, by origin; at most kMaxOrigins.
  std::map<std::string, KeyOrigin> keys() const;

 protected:
  void count_request(const std::string& origin, uint64_t count = 1);
  void record_end_of_fetcher();
  /// The keys of a request to `url`.
  void record_keys(const std::string& url, const KeyOrigin& keys);
  void record_answer(const std::string& origin, const Response& response);
  bool is_expected_to_answer(const std::string& origin, Trust trust) const;

 private:
  const Options options_;
  std::atomic<std::chrono::milliseconds> patience_{};
  mutable std::mutex mutex_;  // guards the rest
  std::map<std::string, uint64_t> requests_;
  std::map<std::string, KeyOrigin> keys_;
  std::map<std::string, Answer> answers_;  // by origin; at most kMaxOrigins
  Waiting waiting_;
};

}  // namespace weightfs::http
