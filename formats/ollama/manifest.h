// The manifest of a model in Ollama's store or a registry: JSON that names the blobs that the model is made of. It is
// read as Ollama reads it (encoding/json of Go), so that what it accepts is accepted here.
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

/// Longer ones are refused, as registries do, in bytes.
inline constexpr uint64_t kLongestManifest = 4 << 20;

/// A manifest has no more layers than this. Models of one blob per tensor have some thousand.
inline constexpr size_t kMostLayers = 100'000;

/// What a manifest says of one blob.
struct Descriptor {
  std::string media_type;
  std::string digest_text;       ///< as the manifest spells it
  std::optional<Digest> digest;  ///< nothing when it names no blob
  std::optional<uint64_t> size;  ///< nothing when it does not say, or something negative
  std::string name;              ///< of a tensor or a file
  std::string from;              ///< where Ollama had the layer from: a model's name, a path
  std::string runner;            ///< of a manifest in a list: "mlx", "ggml"
};

struct Manifest {
  int64_t schema_version = 0;  ///< 0 when there is none
  std::string media_type;
  std::optional<Descriptor> config;
  std::vector<Descriptor> layers;
  std::vector<Descriptor> manifests;  ///< of a list of manifests
  std::string id;                     ///< the 12 hex digits that `ollama list` shows
};

/// Reads the text of a manifest: the first JSON value in it, whatever follows. Keys are taken in any case, unknown ones
/// are passed over, null is as good as nothing. Fails with corrupt when it is no JSON or a field has another type than
/// it should, and with unsupported beyond the limits. A digest that is none, or a size that cannot be, becomes a
/// warning.
Result<Manifest> read_manifest(const std::string& text, Warnings& warnings, Budget& budget);

/// The digest that `sha256:` or `sha256-` and 64 hex digits of either case name; nothing for any other text.
std::optional<Digest> digest_named(std::string_view text);

}  // namespace weightfs::ollama
