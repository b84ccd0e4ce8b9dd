// Mirrors of registries: servers that may have the same blobs. Those of the command line, of containerd
// (docs/hosts.md: hosts.toml) and of the containers libraries (containers-registries.conf(5)).
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace weightfs {

struct Mirror {
  std::string registry = {};  ///< the host that it mirrors, with its port; empty: all
  /// The URL below which the mirror has `v2/`; of a cache, the directory of blobs.
  std::string url = {};
  /// The directory v1/blobs of another cache, served over http: ab/<64 hex digits>. It mirrors every source.
  bool is_cache = false;
  bool has_tags = false;                  ///< also asked for tags
  bool has_digests = true;                ///< asked for manifests and blobs by digest
  std::string replaced = {};              ///< the first components of a repository that `path` replaces, if it has them
  std::string path = {};                  ///< of the mirror's copies of these repositories
  std::string name_space = {};            ///< sent as ?ns=, so that the mirror knows the registry; empty: not sent
  std::vector<std::string> headers = {};  ///< sent with each request, but not to other origins: "Name: value"
  bool is_complete_path = false;          ///< the URL has the place of `/v2` already

  friend bool operator==(const Mirror&, const Mirror&) = default;
};

/// Parses `[HOST=]URL`, an argument of --mirror. A URL that ends with `/v1/blobs` is a cache. Fails with unsupported.
Result<Mirror> parse_mirror(std::string_view text);

/// The user's files.
struct MirrorFiles {
  std::string containerd;  ///< the directory of hosts.toml files; empty: none
  std::string containers;  ///< registries.conf, and the directory registries.conf.d beside it; empty: none
  /// /etc/containerd/certs.d, and registries.conf from $CONTAINERS_REGISTRIES_CONF, the home directory or /etc.
  static MirrorFiles of_user();
};

/// The mirrors for a repository of a registry: those of `given` that fit it, then those in the files, in their order.
/// A file that cannot be read or parsed is reported by one line, and not used.
std::vector<Mirror> mirrors_for(const std::string& registry, const std::string& repository,
                                const std::vector<Mirror>& given, const MirrorFiles& files,
                                const std::function<void(const std::string&)>& log);

/// The mirrors of repositories, by "HOST/REPOSITORY".
using MirrorTable = std::map<std::string, std::vector<Mirror>>;

/// The URL of the repository at the mirror: "https://mirror.example/v2/library/tiny".
std::string repository_at(const Mirror& mirror, const std::string& repository);

}  // namespace weightfs
