// The signature of a request by the key of a storage account. (learn.microsoft.com, "Authorize with Shared Key".)
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace weightfs::azure {

/// A request without a body.
struct SignedRequest {
  std::string method;
  std::string url;                             ///< as it is sent
  std::map<std::string, std::string> headers;  ///< names in lower case; all of `x-ms-`, `range` and conditions
  std::string account;
};

/// The text that is signed.
std::string text_to_sign(const SignedRequest& request);

/// "SharedKey ACCOUNT:…". `key`: decoded.
std::string shared_key_authorization(const SignedRequest& request, std::string_view key);

/// The MD5 of the bytes in base64, as in Content-MD5; empty in FIPS mode, which forbids it.
std::string md5_in_base64(std::string_view bytes);

}  // namespace weightfs::azure
