// Reads logins from ~/.docker/config.json, as saved by `docker login`.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"

namespace weightfs::registry {

struct Login {
  std::string user;
  std::string password;
};

/// The entry of a docker config for one registry.
struct DockerEntry {
  std::optional<Login> login;
  /// Why there is no login, for a message: no entry, or only an unsupported one (credential helpers are programs and
  /// never run; identity tokens).
  std::string reason;
};

/// Finds the entry for the registry `host` ("localhost:5000"; Docker Hub has several names). Fails with io, not_found,
/// and corrupt (not a docker config, or more than 1 MiB).
Result<DockerEntry> docker_entry(const std::string& path, const std::string& host);

}  // namespace weightfs::registry
