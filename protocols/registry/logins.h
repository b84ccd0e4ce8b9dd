// The user's files with logins for registries, in the order in which they are searched: those of podman and skopeo
// (containers-auth.json(5)), then docker's.
#pragma once

#include <cstdint>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "base/result.h"
#include "protocols/registry.h"
#include "protocols/registry/docker_config.h"

namespace weightfs::registry {

/// The files of podman and skopeo for CredentialPaths. They may be missing.
std::vector<std::string> auth_files_of_user();

/// The repository at a URL of a registry: "team/tiny" of "https://registry.example/v2/team/tiny". Empty if it has none.
std::string repository_of(const std::string& url);

struct FoundLogin {
  std::optional<Login> login = {};
  std::string file = {};               ///< that has it; of a cloud also the name of the source of its keys
                                       ///< or "credential helper NAME"
  std::string reason = {};             ///< why there is no login, for a message
  std::optional<int64_t> expiry = {};  ///< in seconds since 1970; nothing: it does not expire
};

/// The login of the first file that has one, as docker_entry() finds it; of each file, its helper is asked first, as
/// docker does. Files are read at each call, so that a login that was renewed is used; one that is missing or not
/// readable has none, nor has a helper that fails. Fails with unsupported if one is not a file with logins, and with
/// network if the work of the thread is cancelled.
Result<FoundLogin> find_login(const CredentialPaths& paths, const std::string& host, const std::string& repository,
                              const std::stop_token& stop = {});

}  // namespace weightfs::registry
