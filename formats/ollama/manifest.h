// Parses the manifest of a model in Ollama's store or a registry: JSON that lists the blobs of the model. It is parsed
// like Go's encoding/json does, so that everything that Ollama accepts is accepted.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/budget.h"
#include "base/digest.h"
#include "formats/common/warnings.h"

namespace weightfs::ollama {

/// The maximum size of a manifest, in bytes; the same limit as in registries.
inline constexpr uint64_t kMaxManifestSize = 4 << 20;

/// The maximum number of layers. Models with one blob per tensor have some thousand.
inline constexpr size_t kMaxLayers = 100'000;

/// An OCI descriptor of one blob.
struct Descriptor {
  std::string media_type;
  std::string digest_text;       ///< as in the manifest
  std::optional<Digest> digest;  ///< nothing if it is not a valid digest
  std::optional<uint64_t> size;  ///< nothing if it is missing or negative
  std::string name;              ///< of a tensor or a file
  std::string from;              ///< the origin of the layer: a model's name, a path
  std::string runner;            ///< of a manifest in a list: "mlx", "ggml"
};

struct Manifest {
  int64_t schema_version = 0;  ///< 0 if missing
  std::string media_type;
  std::optional<Descriptor> config;
  std::vector<Descriptor> layers;
  std::vector<Descriptor> manifests;  ///< of a list of manifests
  std::string id;                     ///< the 12 hex digits that `ollama list` shows
};

/// Parses the first JSON value in `text` as a manifest. Keys match in any case. Unknown keys and null values are
/// ignored. Fails with corrupt if it is not JSON or a field has a wrong type, and with unsupported beyond the
/// limits. An invalid digest or size becomes a warning.
Result<Manifest> read_manifest(const std::string& text, Warnings& warnings, Budget& budget);

/// Parses a digest: `sha256:` or `sha256-` and 64 hex digits of either case; nothing for any other text.
std::optional<Digest> digest_named(std::string_view text);

}  // namespace weightfs::ollama
