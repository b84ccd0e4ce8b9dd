// The options that say where blobs are kept and whether what is not at hand is fetched, and the store that they ask
// for.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cache/blob_store.h"
#include "cli/options/option.h"
#include "fs/source_tree.h"

namespace weightfs {

/// As the command line has them.
struct Storing {
  bool no_cache = false;         ///< keep blobs in a temporary file of this process only
  std::optional<uint64_t> size;  ///< the cache's quota, in bytes
  std::vector<std::string> blob_directories;
  bool offline = false;   ///< fetch nothing
  bool stream = false;    ///< serve bytes before they are proved
  bool insecure = false;  ///< speak http with registries
  bool allow_private_urls = false;
  Recheck recheck = Recheck::read;
  unsigned timeout = 30;  ///< seconds that nothing may arrive
  bool sandbox = true;    ///< confine this process before it reads a container
};

/// What every verb that reads a source takes.
Options store_options(Storing& storing);
void add_store_options(CLI::App& verb, Storing& storing);

/// Opens sources with the store that they ask for: sets OpenOptions::blobs and OpenOptions::registries. `log` is told
/// what had to be got around. Fails with not_found when a directory is missing.
Result<BlobStorePtr> use_store(OpenOptions& opening, const Storing& storing,
                               std::function<void(const std::string&)> log);

/// A size such as 500M, 20GiB or 1048576 (K, M, G, T are powers of 1024), in bytes; nothing when it is none.
std::optional<uint64_t> size_of(const std::string& text);

}  // namespace weightfs
