// The layers of a manifest: what each is by its media type, and what it is called in files/. Source: the media types
// that Ollama writes (manifest/layer.go, server/create.go), and the document layout (docs/formats/ollama.md).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/common/warnings.h"
#include "formats/ollama/manifest.h"

namespace weightfs::ollama {

enum class Kind {
  config,
  model,      ///< GGUF, or what came before it
  projector,  ///< of images to tokens: GGUF
  adapter,    ///< LoRA: GGUF
  draft,      ///< a smaller model that guesses ahead: GGUF
  chat_template,
  system,
  license,
  params,
  messages,
  embed,
  tensor,
  json,  ///< any JSON file of the model that it was made of
  tokenizer,
  tokenizer_config,
  manifest,  ///< of a list of manifests
  other,
};

/// What a container's first bytes say it is, where somebody could look.
enum class Look { unseen, gguf, safetensors, neither };

struct Layer {
  Descriptor descriptor;
  Kind kind = Kind::other;
  std::string name;                  ///< the field `name`, or the parameter of the media type
  std::optional<std::string> dtype;  ///< of a tensor whose blob is its bytes alone (document layout)
  std::optional<std::string> shape;  ///< the same, as the media type spells it
  Look look = Look::unseen;          ///< of a model, a projector, an adapter, a draft
  std::string path;                  ///< in files/, see name_layers()

  /// Whether it is of a kind that is a container.
  bool is_container() const;
};

/// What the manifest lists: its config if it has one, its layers, the manifests of a list.
std::vector<Layer> layers_of(const Manifest& manifest, Warnings& warnings);

/// Gives each layer, which must name a blob, its path, different from all others, and returns the manifest's own. JSON
/// files keep the names that they have; where two layers would have one name the second gets `-2`.
std::string name_layers(const std::vector<Layer*>& layers, Warnings& warnings);

}  // namespace weightfs::ollama
