// Models in a registry: a tag resolved to its manifest, and the layers that the manifest names, fetched when they are
// read. (OCI distribution-spec, pull; Ollama's registry differs as docs/formats/ollama.md says.)
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "cache/blob_store.h"

namespace weightfs {

/// Which manifest of which repository.
struct Reference {
  std::string scheme = "https";  ///< or http
  std::string host;              ///< with its port, if it has one: "registry.ollama.ai", "localhost:5000"
  std::string repository;        ///< "library/llama3.2"
  std::string tag;               ///< or a digest, "sha256:…"
};

/// A manifest, and where its layers come from.
struct Resolved {
  std::string manifest;  ///< as the registry sent it
  Digest digest;         ///< of the manifest
  std::string from;      ///< "https://registry.ollama.ai/v2/library/llama3.2/manifests/latest"
  BlobsPtr blobs;        ///< the store, which asks this registry for what is not at hand
};

/// Where this user's credentials are: ~/.ollama/id_ed25519 and ~/.docker/config.json ($DOCKER_CONFIG/config.json).
struct Keys {
  std::string ollama_key;     ///< path of an OpenSSH private key (ed25519, without a passphrase); empty: none
  std::string docker_config;  ///< path; empty: none
  static Keys of_user();
};

/// Asks the registry for the manifest, of an index for the one that is chosen (cache/registry/manifest.h); the store
/// remembers it. Where `http` is null (offline), what was remembered is taken, and it fails with unreachable when
/// nothing was. Fails with not_found (no such model or tag), with unreachable, with unsupported (http to a host that is
/// not loopback, unless insecure is set; an answer that is no manifest; access denied, saying so), with mismatch when
/// the manifest is not the one that a digest asks for, or that the registry says it is, with corrupt when it has more
/// than 4 MiB.
Result<Resolved> resolve(const Reference& reference, const BlobStorePtr& store, const HttpPtr& http, const Keys& keys);

}  // namespace weightfs
