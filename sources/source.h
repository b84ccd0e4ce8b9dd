// The sources that a SOURCE argument can name: a model, or models and files under names. Each kind of source is a row
// of a table (sources/kinds.cc). The results have no file names, tree or mount yet: fs/ lays them out.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "base/time.h"
#include "cache/blob_store.h"
#include "formats/format.h"
#include "protocols/cloud_settings.h"
#include "protocols/mirrors.h"
#include "sources/disk/watched.h"
#include "sources/location.h"

namespace weightfs {

namespace sandbox {
struct SandboxStatus;
}

/// Proof that this process may read containers: it has entered the sandbox, or the user has turned that off. Only the
/// functions that do so make it (cli/sandbox/sandbox.h), and tests.
class MayOpen {
  friend struct sandbox::SandboxStatus;
  friend struct TestProcess;
  MayOpen() = default;
};

/// How the names of models in registries are resolved.
struct RegistryOptions {
  BlobStorePtr store = nullptr;      ///< null: names in registries are not supported
  http::ClientPtr http = nullptr;    ///< null: offline
  std::vector<Mirror> mirrors = {};  ///< of the command line; the user's files are read besides
  /// Those of the sources, if they were determined before (mirrors_of_sources()): nothing else is read then.
  std::shared_ptr<const MirrorTable> known_mirrors = nullptr;
  bool plain_http = false;  ///< use http for registries whose name has no scheme
  /// With which ranges of the file at SOURCE, a URL, or of the layer of its size of a model in a registry are verified:
  /// a block list, or its fs-verity digest (sources/block_list.h says where that list is).
  BlockListPtr block_list = nullptr;
  std::optional<Digest> block_list_digest = {};

  s3::BucketFlags bucket_flags = {};  ///< for read_credentials()
  CloudSettings clouds = {};

  bool has_block_list() const { return block_list != nullptr || block_list_digest; }
};

/// How sources are opened.
struct OpenOptions {
  const Format* forced = nullptr;     ///< read every container as this format, without detection
  bool require_digest = false;        ///< refuse a source on a server that does not name its bytes
  bool lists_tried = false;           ///< see Container
  bool all_files = false;             ///< in a directory, show files that are not models, unchanged
  std::string file = {};              ///< of a directory or a repository: the path of the file that is its model
  BlobsPtr blobs = uncached_blobs();  ///< keeps what has to be decoded
  NeededTensors needed_tensors = {};  ///< of the model that the source is, if it is on a server
  RegistryOptions registries = {};
  Access access = {};  ///< what may be opened for a source
  /// Receives a line for each file that the rules of a source forbid to open.
  std::function<void(const std::string& line)> log = [](const std::string&) {};
  /// Receives how many files of a model of several files at a URL are open; from 0 on, by one thread at a time.
  std::function<void(uint64_t opened, uint64_t total)> on_opened = [](uint64_t, uint64_t) {};
  std::string excluded_path =
      {};  ///< an absolute path that is never opened: the mount point, so that a mount does not show itself
};

struct OpenedModel {
  ModelPtr model;
  std::string
      source;  ///< for metadata: an absolute path, or "ollama://registry.ollama.ai/library/llama3.2:latest@sha256:…"
  Time modified;
  /// For a directory on disk: the directories that decide what it is, and a text that is equal if nothing in them has
  /// changed, now and later.
  std::vector<WatchedDirectory> directories = {};
  std::string version = {};
  std::function<Result<std::string>()> version_now = {};
};

struct Listing;
using Opened = std::variant<OpenedModel, Listing>;

/// A name in a directory of models, or one of several sources.
struct SourceEntry {
  std::string path;  ///< components joined by `/`, as in the source
  Time modified;
  uint64_t bytes;  ///< size of a container on disk, else 0
  /// A model or a directory, opened when entered, and again after it was dropped; or a file.
  std::variant<std::function<Result<Opened>()>, SourcePtr> content;
  /// Equal if the name stands for the same thing: of a file on disk version_of(), on a server a commit, a digest or an
  /// ETag. Empty if that is not known.
  std::string version = {};
};

/// How a directory is opened again that was a directory of models.
enum class Directories {
  by_rule,  ///< as at first: it may be one model by now
  listed,   ///< as a directory of models
};

/// A directory of models, or a store of them.
struct Listing {
  std::vector<SourceEntry> entries;
  Time modified;
  uint64_t bytes;  ///< total size of its containers, as far as known
  /// For a directory on disk: those that decide what is listed, and how it is opened again. The latter is null for
  /// other listings.
  std::vector<WatchedDirectory> directories = {};
  std::function<Result<Opened>(Directories)> again = {};
};

/// Whether a file is checked when it is found. The check may read the whole header, so a caller that opens the source
/// at once leaves it out.
enum class Check { existence, model };

/// Reads the credentials that these sources need from files and the environment. Called before a sandbox hides them;
/// nothing is read for sources that need none. Fails as s3::Settings::of_user() and
/// gcs::settings_of_user().
Result<void> read_credentials(const std::vector<std::string>& sources, OpenOptions& options);

/// Finds the source that a SOURCE argument names, and reads only what is needed to check that it exists and is a model.
/// Fails with not_found, with io, with network if a registry is unreachable, and with unsupported or corrupt if a
/// named file is not a model.
Result<SourceEntry> find_source(const std::string& source, const OpenOptions& options, MayOpen proof,
                                Check check = Check::model);

/// Opens the file that a SOURCE argument names, whatever it contains: of a model in a registry its only layer above
/// 8 MiB. Fails with unsupported if the argument names a directory or several such layers, and as find_source() does.
Result<SourcePtr> open_source_file(const std::string& source, const OpenOptions& options, MayOpen proof);

/// The files of a SOURCE argument that is a directory on disk, as Folder::parts(); none of any other source.
Result<std::vector<Part>> files_of_directory(const std::string& source, const OpenOptions& options, MayOpen proof);

/// Whether a SOURCE argument names a model in a registry: a manifest and its layers.
bool is_registry_name(const std::string& source);

/// Whether a SOURCE argument is a path, not a name with the prefix of another kind.
bool is_path(const std::string& source);

/// Whether the environment forbids the network for all of these sources, as --offline does: $HF_HUB_OFFLINE for names
/// with `hf:`.
bool is_offline_by_environment(const std::vector<std::string>& sources);

/// A SOURCE argument for messages and listings: a URL without its query, which may be secret.
std::string printable_source(const std::string& source);

/// Where the requests for a source go.
struct Scope {
  enum class Paths : uint8_t {
    all,           ///< what begins with `below`
    one,           ///< `below` itself
    registry,      ///< manifests, blobs and referrers of the repository at `below`
    bucket,        ///< keys below `folder` in a bucket, and lists of them
    container,     ///< the same of Azure Storage; `below` is the container
    models,        ///< revisions, lists and files of the models of a Hub whose names match a pattern
    repositories,  ///< manifests and blobs of the repositories of a registry whose names match a pattern
    objects,       ///< objects of a store, and lists of keys, that a pattern permits
  };
  std::string below = {};  ///< a normalized URL; empty: of a bucket of Amazon S3, in any region
  Paths paths = Paths::all;
  http::CredentialsName credentials = {};  ///< for these requests; the region of a bucket is that of a request
  std::string query = {};                  ///< what follows `?` in each request to a registry
  std::string bucket = {}, folder = {};    ///< the name of the bucket, and the beginning of all keys
  /// As for huggingface::is_permitted_model(), registry::is_permitted_repository() or protocols/s3_server.h.
  std::vector<std::string> patterns = {};
};

/// Whether a request for `url` belongs to the scope. A path with `.` or `..` as a component, however encoded, does only
/// if the scope is that URL.
bool is_in(const Scope& scope, const std::string& url);

/// The mirrors of all sources that are models in registries, of the command line and of the user's files.
MirrorTable mirrors_of_sources(const std::vector<std::string>& sources, const OpenOptions& options);

/// The scopes of all sources, also with the mirrors of the command line and of the user's files. A path has none, as
/// links in containers are no part of it, and so has a name that is not valid.
std::vector<Scope> scopes_of(const std::vector<std::string>& sources, const OpenOptions& options,
                             const std::vector<std::string>& cache_mirrors);

/// That of the models of a Hub that may be requested by a name that a client sends. `endpoint` has no `/` at its end.
Scope scope_of_models(const std::string& endpoint, std::vector<std::string> patterns);

/// The scope of the permitted repositories of a registry; `server` is as of registry::parse_server().
Scope scope_of_repositories(const std::string& server, std::vector<std::string> patterns);

/// The scope of the permitted objects of a store; `endpoint` is as of s3::parse_endpoint().
Scope scope_of_objects(const std::string& endpoint, std::vector<std::string> patterns);

/// The credentials of a scope for a URL in it: of a registry, those of the repository.
http::CredentialsName credentials_in(const Scope& scope, const std::string& url);

/// The scopes of a repository of the Hub that has another name by now, in those of which one was redirected `from` a
/// URL `to` another one; none if it is no such redirect.
std::vector<Scope> scopes_after_renaming(const std::vector<Scope>& scopes, const std::string& from,
                                         const std::string& to);

}  // namespace weightfs
