// The files of an artifact or image: its layers as members of one archive.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "formats/archive/archive.h"
#include "formats/codec/compared_input.h"
#include "formats/oci/manifest.h"

namespace weightfs::oci {

/// The bytes of a descriptor's blob.
struct LayerBytes {
  SourcePtr verified;           ///< nothing is read before their first use
  Later<SourcePtr> unverified;  ///< the same bytes before verification, for parsers
};
using OpenBlob = std::function<Result<LayerBytes>(const Descriptor& blob, const std::string& name)>;

struct ArtifactFiles {
  archive::Archive archive;
  std::map<std::string, Later<SourcePtr>> unverified = {};  ///< the unverified bytes of layers by their file's path
  std::vector<FileCheck> packed = {};                       ///< see FileCheck::Of::layer
};

/// A layer of an image, and what the manifest states of it.
struct StoredLayer {
  SourcePtr bytes;
  std::optional<codec::StatedInput> stated = {};
};

/// What a manifest states of the bytes of a layer; nothing without a SHA-256 digest.
std::optional<codec::StatedInput> stated_of(const Descriptor& layer);

/// Adds a layer whose bytes are not a file of the artifact.
void add_packed(std::vector<FileCheck>& packed, const Descriptor& layer, const SourcePtr& bytes);

/// The files of an artifact: a layer is a file, a tar a directory. Layers that cannot be opened are named by warnings.
/// Fails as reading a tar does. `kitfile` is KitOps' configuration, or null.
Result<ArtifactFiles> files_of_artifact(const Manifest& manifest, const Map* kitfile, const OpenBlob& open,
                                        const Container& container);

/// The files of a container image: the members of its layers, later ones in the place of earlier ones, without those
/// that a layer removes (image-spec, layer.md, "Whiteouts").
Result<archive::Archive> files_of_image(const std::vector<StoredLayer>& layers, const Container& container);

}  // namespace weightfs::oci
