// Reads logins from ~/.docker/config.json, as saved by `docker login`, and from files of the same format, as saved by
// `podman login` and `skopeo login` (containers-auth.json(5)).
#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "protocols/credential_helpers.h"

namespace weightfs::registry {

/// The entry of a docker config for one registry.
struct DockerEntry {
  std::optional<Login> login;       ///< that is in the file
  std::optional<HelperUse> helper;  ///< to be asked first: of `credHelpers`, else of `credsStore`
  std::string reason;               ///< why there is no login, for a message
};

/// Finds the entry for a repository ("team/tiny"; it may be empty) of the registry `host` ("localhost:5000"; Docker Hub
/// has several names): that of the longest key that is the repository, the beginning of its path, or the registry.
/// Fails with io, not_found, and corrupt (not a docker config, or more than 1 MiB).
Result<DockerEntry> docker_entry(const std::string& path, const std::string& host, const std::string& repository = {});

}  // namespace weightfs::registry
