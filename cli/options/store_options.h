// The command line options of the blob store and of downloads, and the store that they configure.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cache/blob_store.h"
#include "cli/options/option.h"
#include "fs/layout/source_tree.h"
#include "protocols/keyring.h"

namespace weightfs {

/// Models of a Hub, repositories of a registry, or objects of a store, that `weightfs serve` looks up when a client
/// asks for them.
struct ServedMirror {
  std::string endpoint = {};            ///< the URL of the server, without a `/` at its end; empty: none
  std::vector<std::string> allow = {};  ///< patterns of ORG/NAME, of names of repositories, or of BUCKET/KEY
  std::chrono::seconds ttl{60};         ///< how long a branch, a tag or an object keeps its commit, manifest or version
  enum class Kind : uint8_t { hub, registry, objects } kind = Kind::hub;

  bool is_on() const { return !endpoint.empty(); }
  bool is_of_registry() const { return is_on() && kind == Kind::registry; }
  bool is_of_hub() const { return is_on() && kind == Kind::hub; }
  bool is_of_objects() const { return is_on() && kind == Kind::objects; }
  /// As the option has it: "hf=URL".
  std::string text() const { return (kind == Kind::hub ? "hf=" : kind == Kind::registry ? "oci=" : "s3=") + endpoint; }
};

/// The parsed options: those of the store and of requests, and what concerns both.
struct StoreFlags {
  StoreOptions store;      ///< without its directory; its quota, policies and directories
  http::Options requests;  ///< timeout, attempts, and what may be connected to
  bool no_cache = false;   ///< keep blobs in temporary files of this process
  bool offline = false;    ///< do not use the network
  /// How long requests wait for the network; nothing: as long as the command does by default.
  std::optional<std::chrono::seconds> wait_for_network = {};
  std::vector<Mirror> mirrors = {};  ///< of registries; those that are caches are in `store`
  SourceKeys source_keys = {};       ///< by absolute paths
  /// The files of client certificates, by origin; absolute paths.
  std::map<std::string, std::string> client_certificates = {};
  bool credential_helpers = false;  ///< run those that the user's files name for registries
  std::string tree;                 ///< the path of a block list, or `sha256:` and a fs-verity digest; empty: none
  s3::BucketFlags buckets = {};     ///< its file by an absolute path
  ServedMirror served_mirror = {};  ///< of `weightfs serve`
  bool sandbox = true;              ///< enter the sandbox before reading a container
};

/// The options of every command that reads a source: of the cache, of downloads, and --sandbox.
Options cache_options(StoreFlags& store_flags);
Options network_options(StoreFlags& store_flags);
Option sandbox_option(StoreFlags& store_flags);

/// The sources for read_credentials(): with one of the object store that is mirrored.
std::vector<std::string> sources_with_credentials(std::vector<std::string> sources, const StoreFlags& flags);

/// --mirror, of servers that may have blobs of registries.
Option mirror_option(StoreFlags& store_flags);

/// How requests are sent, without those callbacks that report on them.
http::Options request_options(const StoreFlags& flags);

/// What sends the requests of a store.
struct Sender {
  Descriptor fetcher = Descriptor();                    ///< to the fetcher (cli/fetcher/fetcher.h); none: this process
  CloudSettings clouds = {};                            ///< without keys if there is a fetcher
  std::shared_ptr<const MirrorTable> mirrors = {};      ///< of the sources; null: the user's files are read
  std::shared_ptr<const void> process = {};             ///< of the fetcher
  CredentialPaths logins = CredentialPaths::of_user();  ///< for registries, if there is no fetcher
};

/// Creates the store for these sources, and sets OpenOptions::blobs and OpenOptions::registries. `log` receives
/// warnings. Fails with not_found if a directory is missing.
Result<BlobStorePtr> use_store(const std::vector<std::string>& sources, OpenOptions& open_options,
                               const StoreFlags& store_flags, Sender sender,
                               std::function<void(const std::string&)> log);

/// From now on, requests wait for a network or a server that is down: for 120 seconds, or as long as the user says. For
/// readers whose source is open: a wrong name is not waited for. `http` may be null.
void wait_for_network(const http::ClientPtr& http, const StoreFlags& flags);

/// The name of a source in listings: the absolute path of a file or directory; a model name, or a URL without its
/// query.
std::string absolute_source(const std::string& source);

}  // namespace weightfs
