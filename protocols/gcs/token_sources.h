// What gives tokens for Google Cloud Storage. A source knows all of its settings; settings.cc decides which one is
// used.
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/values/value.h"
#include "protocols/s3/key_source.h"

namespace weightfs::gcs {

/// What a token may be used for. (cloud.google.com/storage/docs/oauth-scopes.)
constexpr const char* kScope = "https://www.googleapis.com/auth/devstorage.read_only";

/// A JSON Web Token of a service account, signed by itself: a token for an hour, without a request. (RFC 7519;
/// google.aip.dev/auth/4111.) `now`: seconds since 1970. Fails with forbidden if the key is not a PEM of an RSA key.
struct ServiceAccount {
  std::string email;
  std::string private_key;          ///< PEM
  std::string private_key_id = {};  ///< may be empty
};
Result<std::string> self_signed_token(const ServiceAccount& account, int64_t now);

/// The source that a file with credentials describes: "service_account", "authorized_user", or "external_account" with
/// a file or URL. Fails with unsupported for another type, and if a field is missing or names a URL that must not be
/// asked. `path` is for messages, and where the keys are from.
struct FileSource {
  s3::KeySourcePtr source = {};
  std::string project = {};             ///< that pays, if the file names one
  std::vector<std::string> files = {};  ///< that the source reads
};
Result<FileSource> source_of_file(const Map& file, const std::string& path);

/// The service account of the machine. (cloud.google.com/compute/docs/metadata.)
struct Machine {
  std::string url;  ///< "http://169.254.169.254"
  std::chrono::milliseconds timeout{3'000};
};
s3::KeySourcePtr machine(Machine settings);

/// Whether a URL of a file may get a token or a secret: https to sts, oauth2 or iamcredentials.googleapis.com, or a
/// loopback literal.
bool may_get_secrets(const std::string& url);

/// The token of a response, and when it ends: "access_token" and "expires_in" in seconds, or "accessToken" and
/// "expireTime". Fails with forbidden.
Result<s3::TimedKeys> token_in(const Map& object, std::chrono::system_clock::time_point now);

/// A body of application/x-www-form-urlencoded.
std::string form_of(const std::vector<std::pair<std::string_view, std::string>>& parameters);

/// Sends a POST with a secret in its body or headers.
struct Post {
  std::string name;  ///< of the source, for messages
  std::string url;
  std::string body;
  std::string content_type = "application/x-www-form-urlencoded";
  std::vector<std::string> secret_headers = {};
};
Result<Map> send_post(http::Client& client, const Post& post, const std::stop_token& stop);

/// "external_account": a token of another provider, in a file or of a URL, is exchanged for one of Google, and that for
/// one of a service account. (google.aip.dev/auth/4117.)
struct ExternalAccount {
  std::string path;  ///< of the credentials
  std::string audience = {};
  std::string token_type = {};
  std::string token_url = {};
  std::string impersonation_url = {};  ///< empty: none
  std::string file = {};               ///< that has the token, or:
  std::string url = {};
  std::vector<std::string> headers = {};  ///< for `url`
  std::string field = {};                 ///< of a JSON object; empty: the token is all of the text
};
s3::KeySourcePtr external_account(ExternalAccount settings);

}  // namespace weightfs::gcs
