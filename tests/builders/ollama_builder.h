// Builds models as Ollama's store has them, for tests: blobs named by their digests, and a manifest that names them.
#pragma once

#include <fmt/core.h>

#include <string>
#include <string_view>

#include "base/digest.h"
#include "base/text.h"
#include "tests/builders/gguf_builder.h"
#include "tests/builders/safetensors_builder.h"
#include "tests/support/memory_folder.h"

namespace weightfs::test {

inline constexpr const char* kDockerManifest = "application/vnd.docker.distribution.manifest.v2+json";
inline constexpr const char* kDockerConfig = "application/vnd.docker.container.image.v1+json";

/// A media type of Ollama's.
inline std::string image(std::string_view suffix) { return fmt::format("application/vnd.ollama.image.{}", suffix); }

class OllamaBuilder {
 public:
  /// Adds a layer of the media type `application/vnd.ollama.image.` and `suffix`, and its blob; `more` are further
  /// fields as JSON spells them, `,"name":"w"`.
  OllamaBuilder& layer(std::string_view suffix, const std::string& bytes, std::string_view more = "") {
    return listed(described(image(suffix), bytes, more));
  }
  /// Adds a layer as JSON spells it.
  OllamaBuilder& listed(std::string_view json) {
    layers_ += fmt::format("{}{}", layers_.empty() ? "" : ",", json);
    return *this;
  }
  OllamaBuilder& config(const std::string& bytes) {
    config_ = fmt::format(",\"config\":{}", described(kDockerConfig, bytes, ""));
    return *this;
  }
  /// Adds a blob and returns its descriptor for a manifest.
  std::string described(std::string_view media_type, const std::string& bytes, std::string_view more) {
    const std::string hex = sha256(bytes).hex();
    blobs_["sha256-" + hex] = bytes;
    std::string out = "{\"mediaType\":";
    append_json_string(out, media_type);
    return fmt::format("{},\"digest\":\"sha256:{}\",\"size\":{}{}}}", out, hex, bytes.size(), more);
  }

  /// As Ollama writes it.
  std::string manifest() const {
    return fmt::format("{}{}\"{},\"layers\":[{}]}}\n", R"({"schemaVersion":2,"mediaType":")", kDockerManifest, config_,
                       layers_);
  }
  /// As the document has it: layers, and nothing else.
  std::string document() const { return fmt::format("{{\"layers\": [{}]}}\n", layers_); }

  const Files& blobs() const { return blobs_; }

 private:
  std::string layers_;
  std::string config_;
  Files blobs_;
};

/// A model with some of everything that a store has.
inline OllamaBuilder small_ollama() {
  OllamaBuilder b;
  b.config(R"({"model_format":"gguf","model_family":"llama","model_type":"8","file_type":"F32"})");
  b.layer("model", small_gguf()).layer("template", "{{ .Prompt }}").layer("license", "MIT");
  b.layer("params", R"({"stop":["</s>"]})").layer("projector", GgufBuilder().tensor("p", {1}, 24, "p").build());
  b.layer("tensor", SafetensorsBuilder().tensor("t", "U8", "1", "t").build(), R"(,"name":"t")");
  return b.layer("tensor; name=d; dtype=U8; shape=1", "d");
}

}  // namespace weightfs::test
