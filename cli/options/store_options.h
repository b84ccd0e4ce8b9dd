// The command line options of the blob store and of downloads, and the store that they configure.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cache/blob_store.h"
#include "cli/options/option.h"
#include "fs/source_tree.h"

namespace weightfs {

/// The parsed options.
struct StoreFlags {
  bool no_cache = false;         ///< keep blobs in temporary files of this process
  std::optional<uint64_t> size;  ///< the cache's quota, in bytes
  std::vector<std::string> blob_directories;
  bool offline = false;       ///< do not use the network
  bool stream = false;        ///< serve bytes before verification
  bool verify_whole = false;  ///< serve no range of a blob before the whole blob is verified
  bool insecure = false;      ///< use http for registries
  bool allow_private_urls = false;
  Recheck recheck = Recheck::read;
  unsigned timeout = 30;         ///< seconds without data
  unsigned retries = 5;          ///< of a request that fails for a reason that may pass
  unsigned wait_for_ranges = 0;  ///< seconds
  /// How long requests wait for the network; nothing: as long as the command does by default.
  std::optional<std::chrono::seconds> wait_for_network = {};
  std::vector<Mirror> mirrors = {};
  std::string tree;     ///< the path of a block list, or `sha256:` and a fs-verity digest; empty: none
  bool sandbox = true;  ///< enter the sandbox before reading a container
};

/// The options of every command that reads a source: of the cache, of downloads, and --sandbox.
Options cache_options(StoreFlags& store_flags);
Options network_options(StoreFlags& store_flags);
Option sandbox_option(StoreFlags& store_flags);

/// Creates the store for these sources, and sets OpenOptions::blobs and OpenOptions::registries. `log` receives
/// warnings. Fails with not_found if a directory is missing.
Result<BlobStorePtr> use_store(const std::vector<std::string>& sources, OpenOptions& open_options,
                               const StoreFlags& store_flags, std::function<void(const std::string&)> log);

/// The name of a source in listings: the absolute path of a file or directory; a model name, or a URL without its
/// query.
std::string absolute_source(const std::string& source);

/// Parses a size such as 500M, 20GiB or 1048576 (K, M, G, T are powers of 1024) into bytes; nothing if it is not a
/// size.
std::optional<uint64_t> parse_size(const std::string& text);

}  // namespace weightfs
