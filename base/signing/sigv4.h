// AWS Signature Version 4: what requests to object stores are signed with, and what a server compares
// (docs.aws.amazon.com, "Signature Calculations for the Authorization Header", "Authenticating Requests: Using Query
// Parameters").
#pragma once

#include <ctime>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weightfs::sigv4 {

inline constexpr std::string_view kAlgorithm = "AWS4-HMAC-SHA256";

/// The digest of an empty body, as header x-amz-content-sha256.
inline constexpr std::string_view kEmptyBody = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
/// In the place of the digest of a body that is not signed.
inline constexpr std::string_view kUnsignedBody = "UNSIGNED-PAYLOAD";

/// The signed headers: names in lower case, values without white space at the ends.
using Headers = std::map<std::string, std::string>;

/// The names of the headers, joined by `;`.
std::string names_of(const Headers& headers);

/// A request in its canonical form: all but unreserved characters are escaped in the path, except `/`, and in the
/// query (canonical_query()).
struct CanonicalRequest {
  std::string method;
  std::string path;
  std::string query;
  Headers headers;
  std::string body;  ///< the hex digest of the body, or kUnsignedBody

  /// The text that is hashed and signed.
  std::string text() const;
};

/// Parameters, escaped, as the query that is signed: sorted, each with `=`.
std::string canonical_query(std::vector<std::pair<std::string, std::string>> parameters);

/// What a key that signs is derived for.
struct Scope {
  std::string day;  ///< "20130524"
  std::string region;
  std::string service = "s3";

  std::string text() const;  ///< "20130524/us-east-1/s3/aws4_request"
};

/// The signature of a request, 64 hex digits. `date`: as amz_date().
std::string signature(const std::string& secret, std::string_view date, const Scope& scope,
                      const CanonicalRequest& request);

/// The time as in x-amz-date: "20130524T000000Z".
std::string amz_date(std::time_t time);

/// The time of such a text; nothing for others.
std::optional<std::time_t> parse_amz_date(const std::string& text);

}  // namespace weightfs::sigv4
