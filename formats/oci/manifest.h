// The manifest of an OCI artifact or image, and the index of several: JSON that lists blobs with annotations. Sources:
// image-spec 1.1 (manifest.md, image-index.md, descriptor.md), the CNCF ModelPack specification, the media types of
// Docker Model Runner and KitOps (docs/formats/oci.md).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/budget.h"
#include "base/digest.h"
#include "base/os/platform.h"
#include "base/source.h"
#include "base/values/value.h"
#include "formats/common/warnings.h"

namespace weightfs::oci {

/// The maximum size of a manifest, in bytes; the same limit as in registries.
inline constexpr uint64_t kMaxManifestSize = 4 << 20;

struct Descriptor {
  std::string media_type;
  std::string digest_text;              ///< as in the manifest
  std::optional<Digest> digest;         ///< nothing if it is not a SHA-256 digest
  std::optional<uint64_t> size;         ///< in bytes; nothing if it is missing or negative
  Map annotations;                      ///< texts only
  std::optional<PlatformFit> fit = {};  ///< of a manifest in an index that has a platform
  std::string artifact_type = {};       ///< of a manifest in an index; empty if it is not stated

  /// The text of an annotation; empty if there is none.
  std::string_view annotation(std::string_view key) const;
};

struct Manifest {
  std::string artifact_type;  ///< the media type of the config if the manifest has none
  std::optional<Descriptor> config;
  std::vector<Descriptor> layers;
  std::vector<Descriptor> manifests;  ///< of an index
  Map annotations;
  bool is_index = false;
};

/// Parses a manifest or an index. Fails with corrupt if it is not JSON or not a manifest, with unsupported beyond
/// kMaxManifestSize, and as the budget does. The result stays charged.
Result<Manifest> read_manifest(const Source& bytes, Budget& budget);

/// The manifests of an index that may be its model: those of weights (Cog lists them beside the image that has the
/// code), else all but signatures and attestations. All of them if nothing else is left.
std::vector<Descriptor> models_of(const Manifest& index);

/// Whether the manifest is a signature or an attestation of another one (cosign, Sigstore, Notary).
bool is_signature(const Manifest& manifest);

/// Whether a manifest in an index has weights of Cog.
bool has_weights(const Descriptor& manifest);

/// How the bytes of a layer are stored.
struct LayerForm {
  bool is_tar = false;
  std::string_view compression = {};  ///< "gzip", "zstd" or empty
  bool is_of_image = false;           ///< a change set of a container image
};

/// The form of a layer by its media type and annotations.
LayerForm form_of(const Descriptor& layer);

/// Whether it is a layer of an image that registries and layouts do not have: a base of another publisher (image-spec,
/// layer.md, "Non-Distributable Layers"; Docker's "foreign" layers).
bool is_foreign(const Descriptor& layer);

/// The paths of layers in KitOps' configuration (Kitfile) by digest, the first of each.
using KitfilePaths = std::map<std::string_view, std::string_view>;

/// The paths in `kitfile`, which must outlive them.
KitfilePaths kitfile_paths(const Map& kitfile);

/// The path of a layer's file by its annotations, by `kitfile` and by its media type; of a tar, the directory of its
/// members, empty for the top.
std::string path_of(const Descriptor& layer, const LayerForm& form, const KitfilePaths& kitfile, Budget& budget);

}  // namespace weightfs::oci
