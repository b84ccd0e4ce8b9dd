// Signs the requests to one object store.
#pragma once

#include <string>
#include <vector>

#include "cache/http/client.h"
#include "protocols/s3.h"

namespace weightfs::s3 {

/// Adds the signature of the keys, or nothing without keys. Thread-safe.
class Signer final : public http::Credentials {
 public:
  Signer(std::optional<Keys> keys, std::string region, std::string note)
      : keys_(std::move(keys)), region_(std::move(region)), note_(std::move(note)) {}

  std::vector<std::string> headers(std::string_view method, const std::string& url) override;
  /// At most the last four characters of the key's id.
  std::string description() override;

 private:
  const std::optional<Keys> keys_;
  const std::string region_;
  const std::string note_;
};

}  // namespace weightfs::s3
