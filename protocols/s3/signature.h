// AWS Signature Version 4 of requests that are sent (base/signing/sigv4.h), in the header form.
#pragma once

#include <ctime>
#include <map>
#include <string>
#include <string_view>

#include "base/signing/sigv4.h"
#include "protocols/s3.h"

namespace weightfs::s3 {

using sigv4::amz_date;
using sigv4::kEmptyBody;

/// A request without a body.
struct SignedRequest {
  std::string method;      ///< "GET"
  std::string url;         ///< path and query in the canonical encoding (see http::url_encoded())
  sigv4::Headers headers;  ///< those to sign, without `host`; x-amz-date too
  std::string region;
  std::string service = "s3";
};

/// The text that is hashed and signed.
std::string canonical_request(const SignedRequest& request);

/// The value of the Authorization header; x-amz-date must be among the headers.
std::string authorization(const SignedRequest& request, const Keys& keys);

}  // namespace weightfs::s3
