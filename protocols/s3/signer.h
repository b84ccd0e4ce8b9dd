// Signs the requests to one object store.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cache/http/client.h"
#include "protocols/s3.h"
#include "protocols/s3/user_keys.h"

namespace weightfs::s3 {

/// Adds the signature of the keys, or nothing without keys, and what the command line says of the bucket. Thread-safe.
class Signer final : public http::Credentials {
 public:
  /// `client` sends the requests for keys; null: none are obtained.
  Signer(std::shared_ptr<UserKeys> keys, std::string region, http::ClientPtr client = nullptr)
      : keys_(std::move(keys)), region_(std::move(region)), client_(std::move(client)) {}

  Result<void> prepare(const std::stop_token& stop) override;
  std::vector<std::string> headers(std::string_view method, const std::string& url) override;
  uint64_t generation() override { return keys_->current().generation; }
  bool read_again(uint64_t sent, const std::stop_token& stop) override {
    return keys_->renew(sent, UserKeys::Clock::now(), client_, stop);
  }
  Certificates certificates() override { return keys_->current().certificates; }
  http::KeyOrigin key_origin() override { return keys_->current().origin; }
  /// At most the last four characters of the key's id, and why keys could not be renewed.
  std::string description() override;

 private:
  const std::shared_ptr<UserKeys> keys_;
  const std::string region_;
  const http::ClientPtr client_;
};

}  // namespace weightfs::s3
