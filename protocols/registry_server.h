// Repositories of one registry that are requested by names that clients send: `weightfs serve --mirror oci=HOST`.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace weightfs::registry {

/// The origin "https://HOST" of a registry that a user names by HOST or its URL: http for a HOST on loopback, and for
/// docker.io the server of its registry. Fails with unsupported.
Result<std::string> parse_server(std::string_view text);

/// Whether a mirror of the server is meant by `?ns=`, which containerd sends (docs/hosts.md of containerd).
bool is_namespace_of(std::string_view name_space, const std::string& server);

/// Whether it is a name of a repository (distribution-spec, "Pulling manifests") and matches one of the patterns, in
/// which `*` and `?` stand for any characters (fnmatch(3), also for `/`).
bool is_permitted_repository(const std::string& name, const std::vector<std::string>& patterns);

/// The name of the repository whose manifest or blob a normalized URL names, "https://HOST/v2/NAME/blobs/sha256:…";
/// `below` is "https://HOST/v2/". Empty for other URLs.
std::string repository_in(std::string_view url, std::string_view below);

}  // namespace weightfs::registry
