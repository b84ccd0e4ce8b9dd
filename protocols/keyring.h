// The keys, tokens and logins of the user.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cache/blob_store.h"
#include "protocols/cloud_settings.h"

namespace weightfs {

namespace s3 {
class UserKeys;
}
namespace azure {
class UserCredentials;
}
namespace registry {
class CloudLogins;
}

/// The token in a file, without the space around it. Fails as open_file() does, and with unsupported if the file has no
/// token: visible ASCII characters on one line.
Result<std::string> read_token_file(const std::string& path);

/// The files with keys for the servers of URLs that are sources, by their paths. An origin is
/// "https://example.com:443".
struct SourceKeys {
  std::string token = {};                           ///< for the one server of the sources; empty: none
  std::map<std::string, std::string> tokens = {};   ///< by origin, instead of `token`
  std::map<std::string, std::string> headers = {};  ///< by origin: lines "Name: value"

  std::vector<std::string> files() const;
  /// Those with keys of their own.
  std::vector<std::string> origins() const;
};

/// Reads the files. Fails as read_token_file() and read_private_file() do, and with unsupported if a file with headers
/// has other lines.
Result<void> check_source_keys(const SourceKeys& keys);

/// Tokens for hubs and logins for web servers are read when they are asked for, the token for the server of a URL for
/// each request, those for registries when a registry sends a challenge, and keys for object stores again when a store
/// refuses them.
class UserKeyring final : public http::Keyring {
 public:
  explicit UserKeyring(CredentialPaths registries = CredentialPaths::of_user(), const CloudSettings& clouds = {},
                       SourceKeys source_keys = {});

  /// Fails with unsupported if the token for a hub is not valid, and as read_token_file() does.
  Result<http::CredentialsPtr> find(const http::CredentialsName& name, const http::ClientPtr& client) override;

 private:
  const CredentialPaths registries_;
  const std::shared_ptr<s3::UserKeys> buckets_;
  const SourceKeys source_keys_;
  const std::string google_project_;
  const std::shared_ptr<s3::UserKeys> google_;
  const std::shared_ptr<azure::UserCredentials> azure_;
  const std::shared_ptr<const registry::CloudLogins> clouds_;
};

}  // namespace weightfs
