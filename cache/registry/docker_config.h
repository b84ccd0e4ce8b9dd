// Logins to registries, as `docker login` keeps them: ~/.docker/config.json.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"

namespace weightfs {

struct Login {
  std::string user;
  std::string password;
};

/// What a docker config has for one registry.
struct DockerEntry {
  std::optional<Login> login;
  /// Where there is no login, why, for a message: there is no entry, or only what weightfs does not use (a credential
  /// helper is a program, and never run; an identity token).
  std::string reason;
};

/// The entry for the registry `host` ("localhost:5000"; Docker Hub has several names). Fails with io, with not_found,
/// and with corrupt when the file is no docker config, or has more than 1 MiB.
Result<DockerEntry> docker_entry(const std::string& path, const std::string& host);

}  // namespace weightfs
