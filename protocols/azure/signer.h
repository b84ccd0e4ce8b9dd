// Proves to Azure Storage who sends a request.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cache/http/client.h"
#include "protocols/azure.h"
#include "protocols/s3/user_keys.h"

namespace weightfs::azure {

/// The user's credentials while a mount lasts. Thread-safe.
class UserCredentials {
 public:
  explicit UserCredentials(Settings settings);
  const Settings& settings() const { return settings_; }
  s3::UserKeys& tokens() { return tokens_; }

 private:
  const Settings settings_;
  s3::UserKeys tokens_;  // of settings().key_source
};

/// For the containers of one account. Those of the user are not sent to another account. A token that is not for a
/// named account, as machines have, is left out for a minute after a refusal: it fails for public blobs, too, if it has
/// no role for them. Thread-safe.
class Signer final : public http::Credentials {
 public:
  /// `domain`: of the cloud; empty: that of the user's endpoint. `sas`: of the URL that the user named, instead of the
  /// user's credentials; may be empty. `client` sends the requests for tokens; null: none are obtained.
  Signer(std::shared_ptr<UserCredentials> user, std::string account, const std::string& domain, std::string sas,
         http::ClientPtr client = nullptr);

  Result<void> prepare(const std::stop_token& stop) override;
  std::string authorization() override;
  Result<bool> on_unauthorized(const http::Response& response, const http::SentKeys& sent,
                               const std::stop_token& stop) override;
  uint64_t generation() override;
  bool read_again(uint64_t sent, const std::stop_token& stop) override;
  std::vector<std::string> headers(std::string_view method, const std::string& url) override {
    return headers_beside(method, url, {});
  }
  std::vector<std::string> headers_beside(std::string_view method, const std::string& url,
                                          const std::vector<std::string>& sent) override;
  std::string query() override { return sas_; }
  http::KeyOrigin key_origin() override;
  std::string description() override;

 private:
  using Clock = std::chrono::steady_clock;
  bool has_token() const { return auth_ == Auth::token && Clock::now() >= token_from_.load(); }
  bool renew(uint64_t sent, const std::stop_token& stop);

  const std::shared_ptr<UserCredentials> user_;
  const std::string account_;
  const Auth auth_;
  const bool is_of_url_;
  const std::string sas_;
  const std::string key_;  // decoded
  const http::ClientPtr client_;
  const std::chrono::sys_seconds read_ = http::current_second();
  std::atomic<Clock::time_point> token_from_ = Clock::time_point::min();
};

}  // namespace weightfs::azure
