// Models by name: `ollama:llama3.2`, in Ollama's store on this machine or in a registry.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cache/registry.h"
#include "fs/place.h"

namespace weightfs {

/// What registries are spoken with when the name does not say; those on loopback speak http in any case.
enum class Scheme { https, http };

/// Where Ollama keeps its models on this machine: $OLLAMA_MODELS, else ~/.ollama/models and that of the system's
/// service.
std::vector<std::string> local_ollama_stores();

/// `ollama:NAME` is looked for in the local store first ($OLLAMA_MODELS, else ~/.ollama/models and that of the system's
/// service): then `source` becomes the manifest's path. `access` is that of the SOURCE. `ollama:` with `//`, http:// or
/// https:// is asked of the registry. Nothing when `source` begins with none of these, so is a path. Fails as reading
/// the name and resolve() do.
Result<std::optional<Remote>> find_remote(std::string& source, const BlobStorePtr& store, const HttpPtr& http,
                                          Scheme scheme, const Access& access);

}  // namespace weightfs
