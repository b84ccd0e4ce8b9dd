// An HTTP client that sends its requests itself. Every hop is checked against the rules for schemes and addresses. Only
// exchange.cc and url.cc use libcurl; the same URL parser serves checks and requests.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cache/http/client.h"
#include "cache/http/rate_limit.h"
#include "cache/http/request_queue.h"

namespace weightfs::http {

/// Connections are reused. Requests wait for their turns (request_queue.h), each redirect for one of the origin that it
/// leads to. A request to an origin that is closed is not sent: its response is_deferred.
class DirectClient final : public Client {
 public:
  /// Without `keyring` the user has no credentials.
  explicit DirectClient(Options options, KeyringPtr keyring = nullptr)
      : Client(std::move(options)), keyring_(std::move(keyring)), queue_(this->options().connections) {
    if (this->options().limit_rate > 0) rate_.emplace(this->options().limit_rate);
  }

  Result<void> perform(const Request& request, const ResponseHandler& handler, const std::stop_token& stop) override;
  Result<CredentialsPtr> credentials(const CredentialsName& name) override;

 private:
  // A handle for one request, which is counted.
  CurlHandlePtr take(const std::string& origin);
  void give_back(CurlHandlePtr handle, const std::string& origin);

  const KeyringPtr keyring_;
  RequestQueue queue_;
  std::optional<RateLimit> rate_;
  std::mutex mutex_;                                         // guards the rest
  std::vector<std::pair<std::string, CurlHandlePtr>> idle_;  // with the origin of the newest connection of each
};

}  // namespace weightfs::http
