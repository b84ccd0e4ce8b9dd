// The command line options of the blob store and of downloads, and the store that they configure.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cache/blob_store.h"
#include "cli/options/option.h"
#include "fs/layout/source_tree.h"

namespace weightfs {

/// The parsed options: those of the store and of requests, and what concerns both.
struct StoreFlags {
  StoreOptions store;      ///< without its directory; its quota, policies and directories
  http::Options requests;  ///< timeout, attempts, and what may be connected to
  bool no_cache = false;   ///< keep blobs in temporary files of this process
  bool offline = false;    ///< do not use the network
  /// How long requests wait for the network; nothing: as long as the command does by default.
  std::optional<std::chrono::seconds> wait_for_network = {};
  std::vector<Mirror> mirrors = {};  ///< of registries; those that are caches are in `store`
  std::string tree;                  ///< the path of a block list, or `sha256:` and a fs-verity digest; empty: none
  bool sandbox = true;               ///< enter the sandbox before reading a container
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

}  // namespace weightfs
