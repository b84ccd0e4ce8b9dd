// An HTTP client that sends its requests itself. Every hop is checked against the rules for schemes and addresses. Only
// exchange.cc and url.cc use libcurl; the same URL parser serves checks and requests.
#pragma once

#include <map>
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

struct ExchangeRequest;
struct ExchangeResult;

/// Certificates with their keys (PEM), by the origins that they are for ("https://example.com:443").
using ClientCertificates = std::map<std::string, std::string>;

/// Connections are reused. Requests wait for their turns (request_queue.h), each redirect for one of the origin that it
/// leads to. A request to an origin that is closed is not sent: its response is_deferred.
class DirectClient final : public Client {
 public:
  /// Without `keyring` the user has no credentials. `certificates` are used for the requests of the user, not for URLs
  /// in containers.
  explicit DirectClient(Options options, KeyringPtr keyring = nullptr, ClientCertificates certificates = {})
      : Client(std::move(options)),
        keyring_(std::move(keyring)),
        certificates_(std::move(certificates)),
        queue_(this->options().connections) {
    if (this->options().limit_rate > 0) rate_.emplace(this->options().limit_rate);
  }

  Result<void> perform(const Request& request, const ResponseHandler& handler, const std::stop_token& stop) override;
  Result<CredentialsPtr> credentials(const CredentialsName& name) override;

 private:
  // A handle for one request, which is counted.
  CurlHandlePtr take(const std::string& origin);
  void give_back(CurlHandlePtr handle, const std::string& origin);
  Result<ExchangeResult> send(const ExchangeRequest& exchange, const std::stop_token& stop);

  const std::string* certificate_for(const std::string& origin, Trust trust) const;

  const KeyringPtr keyring_;
  const ClientCertificates certificates_;
  RequestQueue queue_;
  std::optional<RateLimit> rate_;
  std::mutex mutex_;                                         // guards the rest
  std::vector<std::pair<std::string, CurlHandlePtr>> idle_;  // with the origin of the newest connection of each
};

}  // namespace weightfs::http
