// The layers of a manifest: their kinds by media type, and their names in files/. Source: the media types that Ollama
// writes (manifest/layer.go, server/create.go), and the document layout (docs/formats/ollama.md).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "formats/common/warnings.h"
#include "formats/ollama/manifest.h"

namespace weightfs::ollama {

enum class LayerKind {
  config,
  model,      ///< GGUF, or an older format
  projector,  ///< of images to tokens: GGUF
  adapter,    ///< LoRA: GGUF
  draft,      ///< a draft model for speculative decoding: GGUF
  chat_template,
  system,
  license,
  params,
  messages,
  embed,
  tensor,
  json,  ///< any JSON file of the original model
  tokenizer,
  tokenizer_config,
  manifest,  ///< of a list of manifests
  other,
};

/// The content of a blob by its first bytes; unknown if they were not available.
enum class Content { unknown, gguf, safetensors, other };

struct Layer {
  Descriptor descriptor;
  LayerKind kind = LayerKind::other;
  std::string name;                    ///< the field `name`, or the media type's parameter
  std::optional<std::string> dtype;    ///< of a tensor whose blob is only its data (document layout)
  std::optional<std::string> shape;    ///< likewise, as in the media type
  Content content = Content::unknown;  ///< of a model, a projector, an adapter, a draft
  std::string path;                    ///< in files/, see name_layers()

  /// Whether layers of this kind are containers.
  bool is_container() const;
};

/// The entries of a manifest: its config if it has one, its layers, the manifests of a list.
std::vector<Layer> layers_of(const Manifest& manifest, Warnings& warnings);

/// Sets a unique path for each layer, which must have a digest, and returns the path of the manifest. JSON files keep
/// their names; of two layers with the same name the second gets the suffix `-2`.
std::string name_layers(const std::vector<Layer*>& layers, Warnings& warnings);

}  // namespace weightfs::ollama
