// Logins for the registries of clouds that need no program: the user's keys for the cloud give them.
// (docs.aws.amazon.com, "Private registry authentication";
// cloud.google.com/artifact-registry/docs/docker/authentication, "Access token"; learn.microsoft.com, "Authenticate
// with an Azure container registry": AAD-OAuth.)
#pragma once

#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cache/http/client.h"
#include "protocols/registry.h"
#include "protocols/registry/logins.h"
#include "protocols/s3/user_keys.h"

namespace weightfs::registry {

/// The API of Amazon that gives logins for a registry.
struct AmazonRegistry {
  std::string region;
  std::string host;      ///< of the API, before the region: "api.ecr"
  std::string domain;    ///< after it: "amazonaws.com"
  std::string service;   ///< in signatures
  std::string target;    ///< the action
  const char* variable;  ///< that may name another URL for the API
};

/// That of a whole host name without a port, `ACCOUNT.dkr.ecr.REGION.amazonaws.com`, or `public.ecr.aws`, also of their
/// dual-stack names; nothing for any other name. The API of a dual-stack name has one, too. (docs.aws.amazon.com,
/// "Making requests to Amazon ECR registries", "Amazon ECR endpoints and quotas".)
std::optional<AmazonRegistry> amazon_registry(std::string_view host);

/// The user's keys for clouds. None is null.
struct CloudKeys {
  std::shared_ptr<s3::UserKeys> amazon;
  std::shared_ptr<s3::UserKeys> google;
  std::shared_ptr<s3::UserKeys> azure;  ///< tokens for registries
};

/// Thread-safe.
class CloudLogins {
 public:
  /// `origins`: the registries that the user named as sources. Others have no login.
  CloudLogins(std::vector<std::string> origins, CloudKeys keys)
      : origins_(std::move(origins)), keys_(std::move(keys)) {}

  /// The login for the registry at an origin, for a token server at another one or the same; none, without a reason, if
  /// these are not both https servers of a cloud that belong together, or not named by the user. The keys are sent to
  /// the API of the cloud only, for Azure the token to the registry. Without usable keys the login is missing for a
  /// reason: a public model needs none. Fails with network.
  Result<FoundLogin> find(const std::string& registry, const std::string& token_server, const http::ClientPtr& client,
                          const std::stop_token& stop) const;

 private:
  const std::vector<std::string> origins_;
  const CloudKeys keys_;
};

}  // namespace weightfs::registry
