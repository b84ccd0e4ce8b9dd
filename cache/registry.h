// Models in a registry: resolves a tag to its manifest; layers are downloaded when they are read. (OCI
// distribution-spec, pull; docs/formats/ollama.md describes the differences of Ollama's registry.)
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "cache/blob_store.h"

namespace weightfs {

/// A manifest in a repository of a registry.
struct Reference {
  std::string scheme = "https";  ///< or http
  std::string host;              ///< with a port if there is one: "registry.ollama.ai", "localhost:5000"
  std::string repository;        ///< "library/llama3.2"
  std::string tag;               ///< or a digest, "sha256:…"
};

/// A manifest, and the store for its layers.
struct ResolvedManifest {
  std::string manifest;  ///< as sent by the registry
  Digest digest;         ///< of the manifest
  std::string from;      ///< "https://registry.ollama.ai/v2/library/llama3.2/manifests/latest"
  BlobsPtr blobs;        ///< the store, which downloads from this registry
};

/// The user's credential files: ~/.ollama/id_ed25519 and ~/.docker/config.json ($DOCKER_CONFIG/config.json).
struct CredentialPaths {
  std::string ollama_key;     ///< path of an OpenSSH private key (ed25519, without a passphrase); empty: none
  std::string docker_config;  ///< path; empty: none
  static CredentialPaths of_user();
};

/// Requests the manifest from the registry, follows an index to the selected manifest (cache/registry/manifest.h), and
/// saves it in the store. If `http` is null (offline), uses the saved manifest, and fails with network if there is
/// none. Fails with not_found (no such model or tag), network, unsupported (http to a host other than loopback
/// without insecure; not a manifest; access denied), mismatch (the digest differs from the requested one or from the
/// registry's header), and corrupt (more than 4 MiB).
Result<ResolvedManifest> resolve(const Reference& reference, const BlobStorePtr& store, const http::ClientPtr& http,
                                 const CredentialPaths& paths);

}  // namespace weightfs
