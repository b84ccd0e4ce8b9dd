// The keys, tokens and logins of the user.
#pragma once

#include <memory>
#include <string>

#include "cache/blob_store.h"
#include "protocols/azure.h"
#include "protocols/registry.h"
#include "protocols/s3.h"

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

/// Tokens for hubs and logins for web servers are read when they are asked for, the token for the server of a URL for
/// each request, those for registries when a registry sends a challenge, and keys for object stores again when a store
/// refuses them.
class UserKeyring final : public http::Keyring {
 public:
  /// `buckets` has the keys for object stores, `google` the tokens for gs://, and `azure` the credentials for Azure
  /// Storage, as they were read before; `source_token` is the path of the token for the server of a URL, empty for
  /// none. `clouds`: the registries that may get logins by the keys of `buckets`, `google` and its own.
  explicit UserKeyring(CredentialPaths registries = CredentialPaths::of_user(), s3::Settings buckets = {},
                       std::string source_token = {}, s3::Settings google = {}, azure::Settings azure = {},
                       const CloudRegistries& clouds = {});

  /// Fails with unsupported if the token for a hub is not valid, and as read_token_file() does.
  Result<http::CredentialsPtr> find(const http::CredentialsName& name, const http::ClientPtr& client) override;

 private:
  const CredentialPaths registries_;
  const std::shared_ptr<s3::UserKeys> buckets_;
  const std::string source_token_;
  const std::string google_project_;
  const std::shared_ptr<s3::UserKeys> google_;
  const std::shared_ptr<azure::UserCredentials> azure_;
  const std::shared_ptr<const registry::CloudLogins> clouds_;
};

}  // namespace weightfs
