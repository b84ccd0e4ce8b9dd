#include "formats/ollama/layers.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <utility>

#include "base/text.h"
#include "formats/ollama/media_type.h"

namespace weightfs::ollama {
namespace {

constexpr std::string_view kPrefix = "application/vnd.ollama.image.";

constexpr std::array<std::pair<std::string_view, LayerKind>, 16> kKinds = {{
    {"config", LayerKind::config},
    {"model", LayerKind::model},
    {"projector", LayerKind::projector},
    {"adapter", LayerKind::adapter},
    {"draft", LayerKind::draft},
    {"template", LayerKind::chat_template},
    {"prompt", LayerKind::chat_template},  // before December 2023
    {"system", LayerKind::system},
    {"license", LayerKind::license},
    {"params", LayerKind::params},
    {"messages", LayerKind::messages},
    {"embed", LayerKind::embed},
    {"tensor", LayerKind::tensor},
    {"json", LayerKind::json},
    {"tokenizer", LayerKind::tokenizer},
    {"tokenizer.config", LayerKind::tokenizer_config},
}};

LayerKind kind_of(std::string_view media_type) {
  if (!media_type.starts_with(kPrefix)) return LayerKind::other;
  const std::string_view suffix = media_type.substr(kPrefix.size());
  const auto row = std::find_if(kKinds.begin(), kKinds.end(), [&](const auto& kind) { return kind.first == suffix; });
  return row == kKinds.end() || suffix.empty() ? LayerKind::other : row->second;
}

std::optional<std::string> parameter(const MediaType& type, std::string_view name) {
  const std::string* const value = type.find(name);
  return value == nullptr ? std::nullopt : std::optional(*value);
}

Layer layer_of(const Descriptor& descriptor, Warnings& warnings) {
  Layer layer;
  layer.descriptor = descriptor;
  layer.name = descriptor.name;
  const auto type = parse_media_type(descriptor.media_type);
  if (!type) {
    if (!descriptor.media_type.empty())
      warnings.add("layer {}: {}", quoted(descriptor.media_type), type.error().message);
    layer.kind = kind_of(without_parameters(descriptor.media_type));
    return layer;
  }
  layer.kind = kind_of(type->type);
  if (layer.name.empty()) layer.name = parameter(*type, "name").value_or("");
  layer.dtype = parameter(*type, "dtype");
  layer.shape = parameter(*type, "shape");
  return layer;
}

// A name in two pieces: a number goes between them.
struct FileName {
  std::string stem;
  std::string_view extension = "";
};

std::string blob_name(const Layer& layer) { return "blob-" + layer.descriptor.digest->hex().substr(0, 12); }

std::string_view extension_of(const Layer& layer) {
  if (layer.content == Content::safetensors) return ".safetensors";
  return layer.content == Content::other ? ".bin" : ".gguf";
}

FileName named_json(const Layer& layer) {
  constexpr std::string_view kJson = ".json";
  if (layer.name.empty()) return {blob_name(layer), kJson};
  if (!layer.name.ends_with(kJson)) return {layer.name};
  return {layer.name.substr(0, layer.name.size() - kJson.size()), kJson};
}

FileName named_other(const Layer& layer) {
  if (!layer.name.empty()) return {layer.name};
  const std::string type = without_parameters(layer.descriptor.media_type);
  if (!type.starts_with(kPrefix) || type.size() == kPrefix.size()) return {blob_name(layer)};
  return {percent_escaped(type.substr(kPrefix.size()))};
}

struct FixedName {
  LayerKind kind;
  std::string_view stem;
  std::optional<std::string_view> extension = std::nullopt;  // nothing: by the content
};

constexpr auto kFixedNames = std::to_array<FixedName>({
    {LayerKind::config, "config", ".json"},
    {LayerKind::model, "model"},
    {LayerKind::projector, "projector"},
    {LayerKind::adapter, "adapter"},
    {LayerKind::draft, "draft"},
    {LayerKind::system, "system", ""},
    {LayerKind::license, "license", ""},
    {LayerKind::params, "params", ".json"},
    {LayerKind::messages, "messages", ".json"},
    {LayerKind::embed, "embed", ""},
    {LayerKind::tokenizer, "tokenizer", ".json"},
    {LayerKind::tokenizer_config, "tokenizer_config", ".json"},
});

FileName named(const Layer& layer) {
  const auto fixed = std::ranges::find(kFixedNames, layer.kind, &FixedName::kind);
  if (fixed != kFixedNames.end())
    return {std::string(fixed->stem), fixed->extension ? *fixed->extension : extension_of(layer)};
  const std::string own = percent_escaped(layer.name);
  switch (layer.kind) {
    case LayerKind::chat_template:
      return {own.empty() ? "template" : "template-" + own};
    case LayerKind::tensor:
      return {"tensors/" + (layer.name.empty() ? blob_name(layer) : layer.name), layer.dtype ? "" : ".safetensors"};
    case LayerKind::json:
      return named_json(layer);
    case LayerKind::manifest:
      return {"manifest-" + (own.empty() ? blob_name(layer) : own), ".json"};
    default:
      return named_other(layer);
  }
}

// Assigns unique paths.
class Paths {
 public:
  bool is_taken(const std::string& path) const { return taken_.contains(path); }

  std::string take(const FileName& name) {
    std::string path = fmt::format("{}{}", name.stem, name.extension);
    // The number of uses of a name, so that not all suffixes are tried again.
    uint64_t& copies = copies_[path];
    while (!taken_.insert(copies == 0 ? path : fmt::format("{}-{}{}", name.stem, copies + 1, name.extension)).second)
      ++copies;
    if (copies++ > 0) path = fmt::format("{}-{}{}", name.stem, copies, name.extension);
    return path;
  }

 private:
  std::set<std::string> taken_;
  std::map<std::string, uint64_t> copies_;
};

bool keeps_its_name(const Layer& layer) {
  return !layer.name.empty() && (layer.kind == LayerKind::json || layer.kind == LayerKind::other);
}

}  // namespace

bool Layer::is_container() const {
  return kind == LayerKind::model || kind == LayerKind::projector || kind == LayerKind::adapter ||
         kind == LayerKind::draft;
}

std::vector<Layer> layers_of(const Manifest& manifest, Warnings& warnings) {
  const auto of_kind = [](const Descriptor& descriptor, LayerKind kind, const std::string& name) {
    Layer layer;
    layer.descriptor = descriptor;
    layer.kind = kind;
    layer.name = name;
    return layer;
  };
  std::vector<Layer> layers;
  if (manifest.config) layers.push_back(of_kind(*manifest.config, LayerKind::config, ""));
  for (const Descriptor& descriptor : manifest.layers) layers.push_back(layer_of(descriptor, warnings));
  for (const Descriptor& child : manifest.manifests)
    layers.push_back(of_kind(child, LayerKind::manifest, child.runner));
  return layers;
}

std::string name_layers(const std::vector<Layer*>& layers, Warnings& warnings) {
  Paths paths;
  for (Layer* const layer : layers) {
    if (!keeps_its_name(*layer)) continue;
    layer->path = paths.take(named(*layer));
    if (!is_plain_path(layer->name)) warnings.add("layer {}: not a path below files/; changed", quoted(layer->name));
  }
  // The model's own files keep their names.
  const bool has_config = paths.is_taken("config.json");
  std::string own = paths.take({paths.is_taken("manifest.json") ? "image-manifest" : "manifest", ".json"});
  for (Layer* const layer : layers) {
    if (keeps_its_name(*layer)) continue;
    FileName name = named(*layer);
    if (layer->kind == LayerKind::config && has_config) name.stem = "image-config";
    layer->path = paths.take(name);
  }
  return own;
}

}  // namespace weightfs::ollama
