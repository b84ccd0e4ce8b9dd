#include "formats/oci/manifest.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "base/text.h"
#include "base/values/json.h"

namespace weightfs::oci {
namespace {

constexpr uint64_t kMaxManifestValues = 1'000'000;

std::optional<uint64_t> size_at(const Map& map, std::string_view key) {
  const Value* const value = map.find(key);
  if (value == nullptr) return std::nullopt;
  if (const auto* number = std::get_if<uint64_t>(value)) return *number;
  const auto* number = std::get_if<int64_t>(value);
  return number == nullptr || *number < 0 ? std::nullopt : std::optional(static_cast<uint64_t>(*number));
}

Map annotations_of(const Map& from) {
  Map texts;
  const Map* const all = from.find_as<Map>("annotations");
  if (all == nullptr) return texts;
  for (const auto& [key, value] : *all)
    if (std::holds_alternative<std::string>(value)) texts.append(key, value);
  return texts;
}

Descriptor descriptor_of(const Map& from) {
  Descriptor found;
  found.media_type = text_in(from, "mediaType");
  found.digest_text = text_in(from, "digest");
  found.digest = parse_digest(found.digest_text);
  found.size = size_at(from, "size");
  found.annotations = annotations_of(from);
  found.artifact_type = text_in(from, "artifactType");
  if (const Map* const platform = from.find_as<Map>("platform"))
    found.fit = fit_of_platform(text_in(*platform, "os"), text_in(*platform, "architecture"));
  return found;
}

std::vector<Descriptor> descriptors_of(const List* list) {
  std::vector<Descriptor> found;
  if (list == nullptr) return found;
  for (const Value& value : *list)
    if (const auto* const entry = std::get_if<Map>(&value)) found.push_back(descriptor_of(*entry));
  return found;
}

// Removes a suffix; returns whether it was there.
bool remove_suffix(std::string_view& text, std::string_view suffix) {
  if (!text.ends_with(suffix)) return false;
  text.remove_suffix(suffix.size());
  return true;
}

bool is_type_of_signature(std::string_view type) {
  constexpr auto kBeginnings =
      std::to_array<std::string_view>({"application/vnd.dev.cosign.", "application/vnd.dev.sigstore.",
                                       "application/vnd.cncf.notary.", "application/vnd.in-toto+"});
  return std::ranges::any_of(kBeginnings, [&](std::string_view begin) { return type.starts_with(begin); });
}

// Tags that cosign derives from the digest of what it signs: "sha256-….sig", also ".att" and ".sbom".
bool is_tag_of_signature(std::string_view tag) {
  constexpr size_t kDigest = 7 + 64;
  return tag.starts_with("sha256-") && tag.size() >= kDigest && digest_of_hex(tag.substr(7, 64)) &&
         (tag.size() == kDigest || tag[kDigest] == '.');
}

bool is_attachment(const Descriptor& manifest) {
  return !manifest.annotation("vnd.docker.reference.type").empty() || is_type_of_signature(manifest.artifact_type) ||
         is_tag_of_signature(manifest.annotation("org.opencontainers.image.ref.name"));
}

// The name of a file whose layer has only a media type (Docker Model Runner, version 0.1; older ModelPack writers).
constexpr std::array<std::pair<std::string_view, std::string_view>, 9> kNames = {{
    {"application/vnd.docker.ai.gguf.v3", "model.gguf"},
    {"application/vnd.docker.ai.safetensors", "model.safetensors"},
    {"application/vnd.docker.ai.mmproj", "mmproj.gguf"},
    {"application/vnd.docker.ai.license", "LICENSE"},
    {"application/vnd.docker.ai.chat.template.jinja", "template.jinja"},
    {"application/vnd.docker.ai.dduf", "model.dduf"},
    {"application/vnd.docker.ai.model.file", "model.bin"},
    {"application/vnd.cncf.model.weight.v1.gguf", "model.gguf"},
    {"application/vnd.cncf.model.weight.v1.safetensors", "model.safetensors"},
}};

// The path of a section of a Kitfile, if it has one.
void add_kitfile_path(KitfilePaths& paths, const Value& value) {
  const auto* const section = std::get_if<Map>(&value);
  if (section == nullptr) return;
  if (const std::string_view path = text_in(*section, "path"); !path.empty())
    paths.emplace(text_in(*section, "digest"), path);
}

std::string name_in_metadata(std::string_view json, Budget& budget) {
  constexpr uint64_t kMaxValues = 1000;
  const SourcePtr text = in_memory(std::string(json));
  const auto value = parse_json(*text, 0, text->size(), budget, kMaxValues);
  const auto* const fields = value ? std::get_if<Map>(&*value) : nullptr;
  return fields == nullptr ? std::string() : std::string(text_in(*fields, "name"));
}

}  // namespace

std::string_view Descriptor::annotation(std::string_view key) const { return text_in(annotations, key); }

Result<Manifest> read_manifest(const Source& bytes, Budget& budget) {
  if (bytes.size() > kMaxManifestSize)
    return failure(Code::unsupported,
                   fmt::format("a manifest of {} bytes, at most {} are read", bytes.size(), kMaxManifestSize));
  const Value value = TRY(parse_json(bytes, 0, bytes.size(), budget, kMaxManifestValues));
  const auto* const fields = std::get_if<Map>(&value);
  if (fields == nullptr) return failure(Code::corrupt, "the manifest is not a JSON object");
  Manifest manifest;
  manifest.is_index = fields->find_as<List>("manifests") != nullptr;
  if (!manifest.is_index && fields->find_as<List>("layers") == nullptr)
    return failure(Code::corrupt, "the manifest has neither layers nor manifests");
  if (const Map* const config = fields->find_as<Map>("config")) manifest.config = descriptor_of(*config);
  manifest.layers = descriptors_of(fields->find_as<List>("layers"));
  manifest.manifests = descriptors_of(fields->find_as<List>("manifests"));
  manifest.annotations = annotations_of(*fields);
  manifest.artifact_type = text_in(*fields, "artifactType");
  if (manifest.artifact_type.empty() && manifest.config) manifest.artifact_type = manifest.config->media_type;
  return manifest;
}

std::vector<Descriptor> models_of(const Manifest& index) {
  std::vector<Descriptor> found;
  const auto keep = [&](const auto& is_one) {
    std::ranges::copy_if(index.manifests, std::back_inserter(found), is_one);
  };
  keep(has_weights);
  if (found.empty()) keep([](const Descriptor& manifest) { return !is_attachment(manifest); });
  return found.empty() ? index.manifests : found;
}

bool is_signature(const Manifest& manifest) {
  const auto is_one = [](const Descriptor& layer) { return is_type_of_signature(layer.media_type); };
  return is_type_of_signature(manifest.artifact_type) ||
         (!manifest.layers.empty() && std::ranges::all_of(manifest.layers, is_one));
}

bool has_weights(const Descriptor& manifest) {
  return manifest.annotation("vnd.cog.reference.type") == "weights" ||
         manifest.artifact_type.starts_with("application/vnd.cog.weight.");
}

LayerForm form_of(const Descriptor& layer) {
  LayerForm form;
  std::string_view type = layer.media_type;
  type = type.substr(0, type.find(';'));
  form.is_of_image =
      type.starts_with("application/vnd.oci.image.layer.") || type.starts_with("application/vnd.docker.image.rootfs.");
  if (remove_suffix(type, "+gzip") || remove_suffix(type, ".gzip") || remove_suffix(type, ".gz"))
    form.compression = "gzip";
  else if (remove_suffix(type, "+zstd"))
    form.compression = "zstd";
  form.is_tar = type.ends_with(".tar");
  // ORAS packs a directory, and names it.
  const bool is_unpacked = layer.annotation("io.deis.oras.content.unpack") == "true";
  const bool is_file = !layer.annotation("org.opencontainers.image.title").empty();
  if (form.is_of_image && is_file) return is_unpacked ? LayerForm{true, form.compression, false} : LayerForm{};
  return form;
}

bool is_foreign(const Descriptor& layer) {
  return layer.media_type.starts_with("application/vnd.oci.image.layer.nondistributable.") ||
         layer.media_type.starts_with("application/vnd.docker.image.rootfs.foreign.");
}

KitfilePaths kitfile_paths(const Map& kitfile) {
  KitfilePaths paths;
  for (const auto& [key, value] : kitfile) {
    add_kitfile_path(paths, value);
    const auto* const section = std::get_if<Map>(&value);
    const List* const list = section != nullptr ? section->find_as<List>("parts") : std::get_if<List>(&value);
    if (list == nullptr) continue;
    for (const Value& entry : *list) add_kitfile_path(paths, entry);
  }
  return paths;
}

std::string path_of(const Descriptor& layer, const LayerForm& form, const KitfilePaths& kitfile, Budget& budget) {
  for (const char* const key : {"org.cncf.model.filepath", "org.cnai.model.filepath", "org.opencontainers.image.title"})
    if (const std::string_view path = layer.annotation(key); !path.empty()) return std::string(path);
  if (const auto section = kitfile.find(layer.digest_text); section != kitfile.end())
    return std::string(section->second);
  for (const char* const key : {"org.cncf.model.file.metadata+json", "org.cnai.model.file.metadata+json"})
    if (const std::string_view json = layer.annotation(key); !json.empty())
      if (std::string name = name_in_metadata(json, budget); !name.empty()) return name;
  if (form.is_tar) return {};
  const auto row = std::ranges::find_if(kNames, [&](const auto& name) { return name.first == layer.media_type; });
  if (row != kNames.end()) return std::string(row->second);
  return "blob-" + (layer.digest ? layer.digest->hex().substr(0, 12) : std::string("unknown"));
}

}  // namespace weightfs::oci
