// What the files of the reader of Ollama's manifests share: a manifest whose blobs have been looked for.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "formats/common/warnings.h"
#include "formats/format.h"
#include "formats/ollama/layers.h"

namespace weightfs::ollama {

/// A blob that a layer names.
struct Blob {
  Later<ResolvedBlob> found;
  Later<SourcePtr> bytes;  ///< found, and proved before they are served: there at once where the size is known
  bool at_hand;            ///< nobody has to fetch it
};

/// A layer, and its blob.
struct Item {
  Layer layer;
  std::shared_ptr<const Blob> blob = {};  ///< null when it names none, or one that cannot be had
  size_t part = 0;                        ///< the place of its blob in the parts
};

/// A manifest, its blobs found.
struct Package {
  Container container;
  Manifest manifest;
  Digest digest;                     ///< of the manifest
  std::vector<Item> items;           ///< as layers_of() has them
  std::vector<Part> parts;           ///< the manifest, then the items' blobs
  std::vector<std::string> missing;  ///< paths of blobs that cannot be had
  uint64_t stored_bytes = 0;         ///< of the manifest and its blobs, each once
  Warnings warnings;
};

using PackagePtr = std::shared_ptr<const Package>;

/// Reads the manifest that the container is and looks for its blobs: in the folder, and where the container's blobs
/// know. Where there is no folder, what is not at hand is left to be fetched. Fails as read_manifest() does, and when
/// the first bytes of a blob that is at hand cannot be read.
Result<Package> open_package(const Container& container);

/// Whether `item` is in what add_contents() reads, and somebody has to fetch it first.
bool has_to_be_fetched(const Item& item);

/// Adds what the blobs hold to the package's model: tensors, metadata, the fields that models have in common. What is
/// wrong with a blob's bytes becomes a warning; fails when bytes cannot be had.
Result<void> add_contents(const Package& package, Model& model, Warnings& warnings);

/// What the first bytes of `bytes` say it is.
Result<Look> look_at(const Source& bytes);

/// The model of one file, read as it arrives, all that it serves taken from `proved`: the same bytes, once they are
/// proved. What reads more than tensors and metadata of one file is read from `proved` altogether.
Result<Model> read_proved(const Container& arriving, const SourcePtr& proved);

}  // namespace weightfs::ollama
