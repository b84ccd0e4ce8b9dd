// Models in a registry: resolves a tag to its manifest; layers are downloaded when they are read. (OCI
// distribution-spec, pull; docs/formats/ollama.md describes the differences of Ollama's registry.)
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cache/blob_store.h"
#include "protocols/mirrors.h"

namespace weightfs {

namespace azure {
struct Settings;
}
namespace registry {
class CredentialHelpers;
}

/// A manifest in a repository of a registry.
struct Reference {
  std::string scheme = "https";  ///< or http
  std::string host;              ///< with a port if there is one: "registry.ollama.ai", "localhost:5000"
  std::string repository;        ///< "library/llama3.2"
  std::string tag;               ///< or a digest, "sha256:…"
};

/// What an index of several models, without platforms, resolves to.
enum class ModelIndex {
  selected,  ///< its first manifest
  whole,     ///< the index itself
};

/// A manifest in an index of models.
struct IndexedModel {
  std::string name;  ///< by its annotations, else twelve digits of the digest
  Digest digest;
};

/// The manifests in an index of several models, which ModelIndex::whole resolves to; empty if it is a manifest. At most
/// 10,000.
std::vector<IndexedModel> models_in_index(const std::string& manifest);

/// The layers of a manifest that have a SHA-256 digest and a size, named by their digests; empty if it is none. At most
/// 10,000.
std::vector<BlobRef> layers_of(const std::string& manifest);

/// A manifest, and the store for its layers.
struct ResolvedManifest {
  std::string manifest;  ///< as sent by the registry
  Digest digest;         ///< of the manifest
  std::string from;      ///< "https://registry.ollama.ai/v2/library/llama3.2/manifests/latest"
  BlobsPtr blobs;        ///< the store, which downloads from this registry
};

/// A repository at a registry, or at a mirror of it.
struct RepositoryPlace {
  http::CredentialsName credentials;  ///< with its URL
  std::string query = {};             ///< what follows `?` in each request
};

/// Those of a reference. Fails with unsupported if it is not a valid name.
Result<std::vector<RepositoryPlace>> repositories_of(const Reference& reference, const std::vector<Mirror>& mirrors);

/// The user's credential files: ~/.ollama/id_ed25519, ~/.docker/config.json ($DOCKER_CONFIG/config.json), and those of
/// podman and skopeo.
struct CredentialPaths {
  std::string ollama_key;     ///< path of an OpenSSH private key (ed25519, without a passphrase); empty: none
  std::string docker_config;  ///< path; empty: none
  /// Searched before docker_config, in this order (containers-auth.json(5)); they may be missing: $REGISTRY_AUTH_FILE,
  /// or $XDG_RUNTIME_DIR/containers/auth.json; $XDG_CONFIG_HOME/containers/auth.json.
  std::vector<std::string> auth_files = {};
  std::shared_ptr<registry::CredentialHelpers> helpers = nullptr;  ///< null: the helpers of these files are not run
  /// Without helpers.
  static CredentialPaths of_user();
};

/// The clouds whose keys give logins for their registries, without a stored login.
enum class Cloud : uint8_t { none, amazon, google, azure };

/// By the whole name of the host in an origin ("https://gcr.io:443"): `ACCOUNT.dkr.ecr.REGION.amazonaws.com` and
/// `public.ecr.aws`, `gcr.io`, `*.gcr.io` and `*-docker.pkg.dev`, `*.azurecr.io`. None for plain http, for another
/// port, and for a name that only contains such a name. (protocols/registry/cloud_logins.cc)
Cloud cloud_of(std::string_view origin);

/// The registries of clouds that the user named as sources: only these get such logins.
struct CloudRegistries {
  std::vector<std::string> origins = {};
  std::shared_ptr<const azure::Settings> azure = nullptr;  ///< see azure::tokens_for_registries(); null: none
};

/// Requests the manifest from the registry, follows an index to the selected manifest (protocols/registry/manifest.h),
/// and saves it in the store. If `http` is null (offline), uses the saved manifest, and fails with network if there is
/// none. Manifests by digest are requested from the mirrors first, tags only from those that resolve tags; the layers
/// are downloaded from mirrors, too. Fails with not_found (no such model or tag), network, unsupported (http to a host
/// other than loopback without insecure; not a manifest; access denied), mismatch (the digest differs from the
/// requested one or from the registry's header), and corrupt (more than 4 MiB).
Result<ResolvedManifest> resolve(const Reference& reference, const BlobStorePtr& store, const http::ClientPtr& http,
                                 ModelIndex of_models = ModelIndex::selected, const std::vector<Mirror>& mirrors = {});

/// A manifest or an index, as the registry sends it.
struct ExactManifest {
  std::string text;
  Digest digest;
};

/// Name of the not_found error (Error::name) of a repository that does not exist, if the registry says so.
inline constexpr std::string_view kNoRepository = "repository-not-found";

/// The manifest or index of a tag or digest: none is selected from an index, and no mirror is asked. One that was seen
/// by its digest is saved, and not requested again. If `http` is null, a tag has the digest that it had last; fails
/// with network if there is none. A request fails with network after the time `within`, and is not repeated. Otherwise
/// fails as resolve().
Result<ExactManifest> find_manifest(const Reference& reference, const BlobStorePtr& store, const http::ClientPtr& http,
                                    std::chrono::milliseconds within);

/// The bytes of a blob in the repository of a reference, verified by its digest. Requests its size, unless it is
/// cached; of a blob that was cached for others, first whether this repository has it, once. Fails with not_found,
/// forbidden, network, and with unsupported if the name is not valid.
Result<SourcePtr> open_blob(const Reference& reference, const Digest& digest, const BlobStorePtr& store,
                            const http::ClientPtr& http);

/// An artifact that refers to a manifest, such as a signature.
struct Referrer {
  std::string digest;  ///< of its manifest; empty for a signature of cosign under a tag
  std::string type;    ///< its artifact type: "application/vnd.dev.sigstore.bundle.v0.3+json"
};

/// Whether a saved answer replaces a request.
enum class Saved : uint8_t { refreshed, accepted };

/// The artifacts that claim to refer to the manifest of this digest: by the registry's list, else by the tag that
/// clients keep instead (distribution-spec, "Listing Referrers"), and a signature of cosign under its tag. Anybody who
/// may write to the repository can add one. Nothing if the registry does not answer, and offline what was seen last.
std::vector<Referrer> referrers(const Reference& reference, const Digest& digest, const BlobStorePtr& store,
                                const http::ClientPtr& http, Saved use);

}  // namespace weightfs
