// AWS Signature Version 4 in the header form (docs.aws.amazon.com, "Signature Calculations for the Authorization
// Header").
#pragma once

#include <ctime>
#include <map>
#include <string>
#include <string_view>

#include "protocols/s3.h"

namespace weightfs::s3 {

/// The digest of an empty body, as header x-amz-content-sha256.
inline constexpr std::string_view kEmptyBody = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// A request without a body.
struct SignedRequest {
  std::string method;                          ///< "GET"
  std::string url;                             ///< path and query in the canonical encoding (see http::url_encoded())
  std::map<std::string, std::string> headers;  ///< those to sign, without `host`; names in lower case; x-amz-date too
  std::string region;
  std::string service = "s3";
};

/// The text that is hashed and signed.
std::string canonical_request(const SignedRequest& request);

/// The value of the Authorization header; x-amz-date must be among the headers.
std::string authorization(const SignedRequest& request, const Keys& keys);

/// The time as in x-amz-date: "20130524T000000Z".
std::string amz_date(std::time_t time);

}  // namespace weightfs::s3
