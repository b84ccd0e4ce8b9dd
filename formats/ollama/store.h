// Ollama's store on disk: manifests below manifests/, and the blobs that they name in blobs/.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "formats/format.h"

namespace weightfs {

/// A model of the store; its path is like "registry.ollama.ai/library/llama3.2/latest".
struct StoredModel {
  std::string path;
  Container container;   ///< its manifest
  std::string identity;  ///< of the manifest's file: equal for tags that are hard links of one file; may be empty
};

/// Its contents: the models, sorted by path, and one line for each file that is not a valid manifest
/// or lacks blobs.
struct OllamaStoreListing {
  std::vector<StoredModel> models;
  std::vector<std::string> warnings;
  std::vector<std::string> damaged;  ///< the paths of the files that are not valid manifests
};

/// Lists the models of a store from its directories manifests/ and blobs/. Reads every manifest, but only the
/// sizes of blobs. Fails if the directories cannot be listed.
Result<OllamaStoreListing> read_ollama_store(const Folder& manifests, const std::shared_ptr<const Folder>& blobs,
                                             const BlobsPtr& store);

/// Whether a file at this path below manifests/ (components joined by `/`) is a manifest.
bool is_manifest_path(std::string_view path);

}  // namespace weightfs
