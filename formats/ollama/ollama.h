// Internals of the reader of Ollama manifests: a manifest with its located blobs.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "formats/common/unverified.h"
#include "formats/common/warnings.h"
#include "formats/format.h"
#include "formats/ollama/layers.h"

namespace weightfs::ollama {

/// The blob of a layer.
struct LayerBlob {
  Later<ResolvedBlob> found;
  Later<SourcePtr> bytes;  ///< verified bytes: available at once if the size is known
  bool is_local;           ///< no download is needed
};

/// A layer and its blob.
struct Item {
  Layer layer;
  std::shared_ptr<const LayerBlob> blob = {};  ///< null if it has no digest, or the blob is not available
  size_t part = 0;                             ///< the index of its blob in the parts
};

/// A manifest with its located blobs.
struct Package {
  Container container;
  Manifest manifest = {};
  Digest digest;                 ///< of the manifest
  std::vector<Item> items = {};  ///< in the order of layers_of()
  std::vector<Part> parts = {};  ///< the manifest, then the items' blobs
  uint64_t stored_bytes = 0;     ///< of the manifest and its blobs, each once
  Warnings warnings = {};
};

using PackagePtr = std::shared_ptr<const Package>;

/// Parses the container as a manifest and looks up its blobs: in the folder, and in the container's blobs. Without a
/// folder, blobs that are not local are fetched later. Fails as read_manifest() does, and if the first bytes of a local
/// blob cannot be read.
Result<Package> open_package(const Container& container);

/// Whether add_contents() reads `item` and its blob must be fetched first.
bool needs_fetch(const Item& item);

/// Adds the contents of the blobs to the package's model: tensors, metadata, common fields. Invalid blobs become
/// warnings; fails if bytes are not available.
Result<void> add_contents(const Package& package, Model& model, Warnings& warnings);

/// Detects the content of `bytes` by its first bytes.
Result<Content> detect_content(const Source& bytes);

}  // namespace weightfs::ollama
