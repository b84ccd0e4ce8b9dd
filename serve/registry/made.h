// Manifests of models that no registry has published: as an artifact of CNCF ModelPack (spec.md of its model-spec), and
// for Ollama, of a GGUF.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/digest.h"
#include "base/source.h"
#include "formats/model.h"
#include "serve/digests/file_digests.h"

namespace weightfs::distribution {

inline constexpr const char* kOciManifest = "application/vnd.oci.image.manifest.v1+json";
inline constexpr const char* kOciIndex = "application/vnd.oci.image.index.v1+json";
inline constexpr const char* kDockerManifest = "application/vnd.docker.distribution.manifest.v2+json";

/// The maximum size of a manifest, in bytes; the limit of registries.
inline constexpr uint64_t kMaxManifest = 4 << 20;

/// Bytes that are named by their digest: a text, or a part of the model, which is not kept open.
struct Blob {
  Digest digest;
  uint64_t size;               ///< bytes
  std::string text;            ///< if it is not a part
  std::optional<size_t> part;  ///< its index
};

struct MadeManifest {
  std::string text;
  Digest digest;            ///< of the text
  const char* media_type;   ///< a literal
  std::vector<Blob> blobs;  ///< its configuration and layers
};
using MadePtr = std::shared_ptr<const MadeManifest>;

/// Which manifest of a model a client reads.
enum class Dialect { modelpack, ollama };

/// Whether there may be such a manifest of the model. Reads at most the first bytes of its file.
bool is_possible(const Model& model, Dialect dialect);

/// Makes the manifest: the same bytes for the same files. A layer is a file of files/; for Ollama the GGUF. Computes
/// the digests of files that the container does not state, of all files at once, and waits for them. Fails with
/// resource, and the progress, if they are not known in time; with unsupported if there is no such manifest; and as
/// reading the files does. `name`: of the model. `patience`: null to compute none; then it fails with not_found if one
/// is not known.
Result<MadePtr> make_manifest(const Model& model, const std::string& name, Dialect dialect,
                              digests::FileDigests& digests, const digests::Patience* patience);

/// The manifest or a blob of it. Fails with not_found if neither has the digest, and as opening the part does.
Result<SourcePtr> open_made(const Model& model, const MadeManifest& made, const Digest& digest);

}  // namespace weightfs::distribution
