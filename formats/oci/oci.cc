// Models in OCI artifacts (CNCF ModelPack, Docker Model Runner, KitOps, ORAS) and in container images: a manifest whose
// layers are in a registry, an image layout (image-spec, image-layout.md) as a directory or a tar, and the tars of
// `docker save` and `podman save`.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <set>

#include "base/text.h"
#include "base/values/json.h"
#include "formats/archive/archive_formats.h"
#include "formats/archive/repository.h"
#include "formats/common/flat.h"
#include "formats/common/unverified.h"
#include "formats/oci/layers.h"
#include "formats/oci/manifest.h"
#include "formats/other_files/texts.h"
#include "formats/signature.h"

namespace weightfs::oci {
namespace {

constexpr uint64_t kMaxConfigSize = 1 << 20;
constexpr size_t kMaxShownLayers = 1000;
constexpr int kMaxIndexDepth = 3;
constexpr const char* kTag = "org.opencontainers.image.ref.name";

// The fields of metadata, by annotation or by field of ModelPack's descriptor.
constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kAnnotations = {{
    {"org.opencontainers.image.title", "name"},
    {"org.opencontainers.image.description", "description"},
    {"org.opencontainers.image.version", "version"},
    {"org.opencontainers.image.licenses", "license"},
    {"org.opencontainers.image.source", "repository"},
    {"org.opencontainers.image.revision", "commit"},
}};
constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kDescriptorFields = {{
    {"name", "name"},
    {"title", "name"},
    {"description", "description"},
    {"version", "version"},
    {"sourceURL", "repository"},
    {"revision", "commit"},
}};

void set_if_absent(Map& map, std::string_view key, std::string_view text) {
  if (!text.empty() && map.find(key) == nullptr) map.set(std::string(key), text);
}

bool is_image(const Manifest& manifest) {
  return !manifest.layers.empty() &&
         std::ranges::all_of(manifest.layers, [](const Descriptor& layer) { return form_of(layer).is_of_image; });
}

// What the source says about itself.
void add_common(Map& common, const Manifest& manifest, const Map* config) {
  for (const auto& [annotation, field] : kAnnotations)
    set_if_absent(common, field, text_in(manifest.annotations, annotation));
  const Map* const descriptor = config == nullptr ? nullptr : config->find_as<Map>("descriptor");
  if (descriptor != nullptr) {
    for (const auto& [key, field] : kDescriptorFields) set_if_absent(common, field, text_in(*descriptor, key));
    const Value* const licenses = descriptor->find("licenses");
    const auto* const list = licenses == nullptr ? nullptr : std::get_if<List>(licenses);
    if (list != nullptr && !list->empty() && std::holds_alternative<std::string>(list->front()))
      set_if_absent(common, "license", std::get<std::string>(list->front()));
  }
  set_if_absent(common, "artifact_type", manifest.artifact_type);
}

Map facts_of(const Manifest& manifest, const Map* config) {
  Map facts;
  if (!manifest.artifact_type.empty()) facts.append("artifact_type", manifest.artifact_type);
  if (!manifest.annotations.empty()) facts.append("annotations", manifest.annotations);
  if (config != nullptr) facts.append("config", *config);
  List layers;
  for (const Descriptor& layer : manifest.layers) {
    if (layers.size() == kMaxShownLayers) break;
    Map shown;
    shown.append("media_type", layer.media_type);
    shown.append("digest", layer.digest_text);
    if (layer.size) shown.append("size", *layer.size);
    if (!layer.annotations.empty()) shown.append("annotations", layer.annotations);
    layers.push_back(std::move(shown));
  }
  facts.append("layers", std::move(layers));
  facts.append("layer_count", manifest.layers.size());
  return facts;
}

// The configuration of an artifact; nothing for images, whose configuration says how to run them.
Result<std::optional<Map>> read_config(const Manifest& manifest, const OpenBlob& open, Budget& budget,
                                       Warnings& warnings) {
  if (!manifest.config || is_image(manifest) || !manifest.config->digest) return std::nullopt;
  const Descriptor& config = *manifest.config;
  if (config.media_type == "application/vnd.oci.empty.v1+json" || config.size.value_or(0) > kMaxConfigSize)
    return std::nullopt;
  const auto read = [&]() -> Result<Value> {
    const SourcePtr bytes = TRY(open(config, "config")).verified;
    if (bytes->size() > kMaxConfigSize) return failure(Code::unsupported, "too large");
    return parse_json(*bytes, 0, bytes->size(), budget);
  };
  auto value = read();
  if (!value) {
    if (!is_about_the_bytes(value.error())) return tl::unexpected(value.error());
    warnings.miss_file(value.error().code, "config: {}", value.error().message);
    warnings.lose(value.error(), {});
    return std::nullopt;
  }
  auto* const fields = std::get_if<Map>(&*value);
  return fields == nullptr ? std::nullopt : std::optional(std::move(*fields));
}

// The paths of the files that are layers by themselves, not members of a tar.
std::set<std::string> layers_in(const archive::Archive& files) {
  std::set<std::string> layers;
  for (const Part& part : files.parts)
    if (part.checksums.get<Digest>() != nullptr) layers.insert(part.path);
  return layers;
}

// The files as one model, if they are one, with the other files beside it; else as files, with models nested in them.
Result<Model> model_in(ArtifactFiles artifact, const Container& container) {
  archive::Archive& files = artifact.archive;
  // A layer that is a model by itself is parsed before it is verified. An index needs the files beside it.
  const auto read = [unverified = std::move(artifact.unverified), layers = layers_in(files)](
                        const Container& file, const std::string& path) -> Result<Model> {
    const auto layer = unverified.find(path);
    if (layer == unverified.end() || !layers.contains(path) || split_model_named(file.name)) return read_model(file);
    Container inner = file;
    inner.bytes = TRY(layer->second.get());
    return read_from_unverified(inner, file.bytes);
  };
  auto model = TRY(archive::find_model_in(files, archive::Repository::published, container, read));
  if (!model) return archive::model_of(std::move(files), container, "oci");
  for (Part& part : model->parts) {
    const Part* const whole = files.find(part.path);
    const Digest* const digest = whole == nullptr ? nullptr : whole->checksums.get<Digest>();
    const bool has_one = part.checksums.get<Digest>() != nullptr;
    if (digest != nullptr && !has_one && part.source.peek() == whole->source.peek()) part.checksums.set(*digest);
  }
  std::move(files.warnings).move_to(*model);
  return std::move(*model);
}

// The members of the layers, except of those that images do not have.
Result<ArtifactFiles> files_of_layers(const Manifest& manifest, const OpenBlob& open, const Container& container,
                                      Warnings& warnings) {
  ArtifactFiles files;
  std::vector<StoredLayer> layers;
  for (const Descriptor& layer : manifest.layers) {
    if (is_foreign(layer)) {
      warnings.add("layer {} is left out: images do not have layers of the type {}", quoted(layer.digest_text),
                   quoted(layer.media_type));
      continue;
    }
    layers.push_back({TRY(open(layer, layer.digest_text)).verified, stated_of(layer)});
    add_packed(files.packed, layer, layers.back().bytes);
  }
  files.archive = TRY(files_of_image(layers, container));
  return files;
}

Result<Model> read_artifact(const Manifest& manifest, const OpenBlob& open, const Container& container) {
  if (is_signature(manifest)) return failure(other_files::other("a signature of another manifest, not a model"));
  Warnings warnings;
  const auto config = TRY(read_config(manifest, open, *container.budget, warnings));
  const Map* const fields = config ? &*config : nullptr;
  ArtifactFiles files;
  if (is_image(manifest)) {
    files = TRY(files_of_layers(manifest, open, container, warnings));
  } else {
    files = TRY(files_of_artifact(manifest, fields, open, container));
  }
  files.archive.warnings.append(warnings, "");
  std::vector<FileCheck> packed = std::move(files.packed);
  Model model = TRY(model_in(std::move(files), container));
  if (!packed.empty()) std::ranges::move(packed, std::back_inserter(model.checks.edit()));
  add_common(model.common, manifest, fields);
  describe_signature(model, *container.budget);
  flat::add_facts(model.metadata, "oci", facts_of(manifest, fields));
  return model;
}

// The manifest's blobs, from the container's store or from the folder beside it.
OpenBlob blobs_of(const Container& container) {
  return [blobs = container.blobs, folder = container.folder](const Descriptor& blob,
                                                              const std::string& name) -> Result<LayerBytes> {
    if (!blob.digest)
      return failure(Code::unsupported, fmt::format("{} is not a SHA-256 digest", quoted(blob.digest_text)));
    BlobRef wanted{name, *blob.digest, blob.size};
    if (folder != nullptr) wanted.local_copy = [folder, hex = blob.digest->hex()] { return folder->open(hex); };
    const Later<ResolvedBlob> found([blobs, wanted] { return blobs->resolve(wanted); });
    const Later<SourcePtr> verified([found]() -> Result<SourcePtr> { return TRY(found.get()).verified; });
    const Later<SourcePtr> unverified([found]() -> Result<SourcePtr> { return TRY(found.get()).unverified; });
    return LayerBytes{blob.size ? lazy(*blob.size, verified) : TRY(verified.get()), unverified};
  };
}

// A layout: blobs are members of the archive.
class Layout {
 public:
  Layout(const archive::Archive& archive, const Container& container) : container_(container) {
    for (const Part& part : archive.parts) {
      constexpr std::string_view kBlobs = "blobs/sha256/";
      if (!part.path.starts_with(kBlobs)) continue;
      if (const auto digest = digest_of_hex(std::string_view(part.path).substr(kBlobs.size())))
        blobs_.emplace(*digest, part.source);
    }
  }

  // Verified as a whole by its first read.
  Result<LayerBytes> open(const Descriptor& blob, const std::string& name) const {
    if (!blob.digest)
      return failure(Code::unsupported, fmt::format("{} is not a SHA-256 digest", quoted(blob.digest_text)));
    const auto source = blobs_.find(*blob.digest);
    if (source == blobs_.end())
      return failure(Code::not_found, fmt::format("{} is not in the layout", blob.digest_text));
    BlobRef wanted{name, *blob.digest, blob.size};
    wanted.local_copy = [bytes = source->second] { return bytes.get(); };
    ResolvedBlob found = TRY(container_.blobs->resolve(wanted));
    return LayerBytes{found.verified, Later<SourcePtr>::of(found.unverified)};
  }

  Result<Manifest> manifest(const Descriptor& at) const {
    const SourcePtr bytes = TRY(open(at, "manifest")).verified;
    return read_manifest(*bytes, *container_.budget);
  }

 private:
  Container container_;
  std::map<Digest, Later<SourcePtr>> blobs_;
};

using LayoutPtr = std::shared_ptr<const Layout>;

// The manifests of a layout, with their tags. What they name is opened by its digest.
std::shared_ptr<const Published> published_in(const LayoutPtr& layout, const Manifest& index) {
  Published published;
  for (const Descriptor& manifest : index.manifests) {
    const std::string_view tag = manifest.annotation(kTag);
    if (!manifest.digest) continue;
    published.manifests.push_back({*manifest.digest});
    if (!tag.empty()) published.manifests.back().tags.emplace_back(tag);
  }
  if (published.manifests.empty()) return nullptr;
  published.open = [layout](const Digest& digest) -> Result<SourcePtr> {
    const std::string text = "sha256:" + digest.hex();
    return TRY(layout->open({.media_type = {}, .digest_text = text, .digest = digest, .size = {}, .annotations = {}},
                            text))
        .verified;
  };
  return std::make_shared<const Published>(std::move(published));
}

// A manifest whose blobs are in a registry or in another store.
std::shared_ptr<const Published> published_by(const SourcePtr& bytes, const Digest& digest, const Manifest& manifest,
                                              const OpenBlob& open) {
  std::map<Digest, Descriptor> blobs;
  const auto add = [&](const Descriptor& blob) {
    if (!blob.digest) return;
    Descriptor known = blob;
    known.annotations = {};
    blobs.emplace(*blob.digest, std::move(known));
  };
  if (manifest.config) add(*manifest.config);
  std::ranges::for_each(manifest.layers, add);
  Published published{{{digest}}};
  published.open = [=, blobs = std::move(blobs)](const Digest& wanted) -> Result<SourcePtr> {
    if (wanted == digest) return bytes;
    const auto blob = blobs.find(wanted);
    if (blob == blobs.end()) return failure(Code::not_found, "the manifest does not name this blob");
    return TRY(open(blob->second, blob->second.digest_text)).verified;
  };
  return std::make_shared<const Published>(std::move(published));
}

OpenBlob blobs_in(const LayoutPtr& layout) {
  return [layout](const Descriptor& blob, const std::string& name) { return layout->open(blob, name); };
}

// The only manifest, or the first of those that fit best; nothing if these are several models.
const Descriptor* only_manifest(const std::vector<Descriptor>& all) {
  if (all.size() == 1) return &all.front();
  if (!all.empty() && has_weights(all.front())) return nullptr;
  const Descriptor* best = nullptr;
  for (const Descriptor& each : all)
    if (each.fit && (best == nullptr || *each.fit > *best->fit)) best = &each;
  return best;
}

std::string name_of(const Descriptor& manifest) {
  for (const char* const key : {kTag, "vnd.cog.weight.name"})
    if (const std::string_view name = manifest.annotation(key); !name.empty()) return std::string(name);
  return manifest.digest ? manifest.digest->hex().substr(0, 12) : "unknown";
}

Result<ModelPtr> read_inner(const LayoutPtr& layout, const Descriptor& at, Container container) {
  ++container.depth;
  const Manifest manifest = TRY(layout->manifest(at));
  Model model = TRY(read_artifact(manifest, blobs_in(layout), container));
  model.budget = container.budget;
  return std::make_shared<const Model>(std::move(model));
}

// Several models: each manifest is a file, and the model is nested in it.
Result<Model> read_several(const LayoutPtr& layout, const std::vector<Descriptor>& manifests,
                           const Container& container) {
  archive::Builder builder(archive::DuplicatePolicy::first_wins, container.budget);
  std::map<std::string, Descriptor> by_path;
  for (const Descriptor& manifest : manifests) {
    std::string path = name_of(manifest) + ".json";
    std::ranges::replace(path, '/', '_');
    auto bytes = layout->open(manifest, path);
    if (!bytes) {
      if (may_pass(bytes.error())) return tl::unexpected(bytes.error());
      builder.warnings().miss_file(bytes.error().code, "{}: {}", quoted(path), bytes.error().message);
      continue;
    }
    if (!by_path.emplace(path, manifest).second) continue;
    TRY_VOID(builder.charge_member(path));
    builder.add_file(path, bytes->verified);
  }
  Model model = archive::model_of(std::move(builder).finish(), container, "oci");
  model.nested = [=](const ModelPtr& itself) -> Result<std::vector<Nested>> {
    std::vector<Nested> nested;
    for (size_t i = 0; i < itself->parts.size(); ++i) {
      const auto found = by_path.find(itself->parts[i].path);
      if (found == by_path.end()) continue;
      nested.push_back({i, Later<ModelPtr>([=, at = found->second] { return read_inner(layout, at, container); })});
    }
    return nested;
  };
  return model;
}

Result<Model> read_model_in(const LayoutPtr& layout, Manifest manifest, const Container& container) {
  for (int depth = 0; manifest.is_index; ++depth) {
    if (depth == kMaxIndexDepth) return failure(Code::unsupported, "indexes are nested too deep");
    const std::vector<Descriptor> models = models_of(manifest);
    const Descriptor* const only = only_manifest(models);
    if (only == nullptr) return read_several(layout, models, container);
    manifest = TRY(layout->manifest(Descriptor(*only)));
  }
  return read_artifact(manifest, blobs_in(layout), container);
}

Result<Model> read_layout(const archive::Archive& archive, const Container& container) {
  const auto layout = std::make_shared<const Layout>(archive, container);
  const std::string text = TRY(archive.text("index.json", kMaxManifestSize));
  const Manifest index = TRY(read_manifest(*in_memory(text), *container.budget));
  Model model = TRY(read_model_in(layout, index, container));
  model.published = published_in(layout, index);
  return model;
}

// The tar of `docker save`: manifest.json lists the images with the paths of their layers.
Result<std::vector<std::string>> saved_layers(const archive::Archive& archive, Budget& budget) {
  const std::string text = TRY(archive.text("manifest.json", kMaxManifestSize));
  const Value value = TRY(parse_json(*in_memory(text), 0, text.size(), budget));
  const auto* const images = std::get_if<List>(&value);
  const auto* const image = images == nullptr || images->empty() ? nullptr : std::get_if<Map>(&images->front());
  const Value* const layers = image == nullptr ? nullptr : image->find("Layers");
  const auto* const list = layers == nullptr ? nullptr : std::get_if<List>(layers);
  if (list == nullptr) return failure(Code::unsupported, "manifest.json lists no image with layers");
  if (images->size() > 1) return failure(Code::unsupported, "has several images; save one");
  std::vector<std::string> paths;
  for (const Value& layer : *list)
    if (const auto* const path = std::get_if<std::string>(&layer)) paths.push_back(*path);
  return paths;
}

Result<Model> read_saved(const archive::Archive& archive, const Container& container) {
  std::vector<StoredLayer> layers;
  const auto paths = TRY(saved_layers(archive, *container.budget));
  for (const std::string& path : paths) {
    const Part* const layer = archive.resolve(path);
    if (layer == nullptr) return failure(Code::corrupt, fmt::format("has no layer {}", quoted(path)));
    layers.push_back({TRY(layer->source.get())});
  }
  ArtifactFiles files{TRY(files_of_image(layers, container))};
  return model_in(std::move(files), container);
}

bool has_layout(const archive::Archive& archive) {
  return archive.find("oci-layout") != nullptr && archive.find("index.json") != nullptr;
}

}  // namespace
}  // namespace weightfs::oci

namespace weightfs {

// A manifest of Ollama has the same form, and its own media types.
Match matches_oci(const Probe& probe) {
  if (!probe.begins_json_object() || probe.size > oci::kMaxManifestSize || !probe.head_contains("\"layers\""))
    return Match::no;
  constexpr std::array kTypes = {
      "\"application/vnd.cncf.model.",
      "\"application/vnd.cnai.model.",
      "\"application/vnd.docker.ai.",
      "\"application/vnd.kitops.modelkit.",
      "\"artifactType\"",
      "\"org.opencontainers.image.title\"",
      "\"application/vnd.oci.image.layer.v1.",
      "\"application/vnd.docker.image.rootfs.",
  };
  const auto shows = [&](std::string_view text) { return probe.head_contains(text); };
  return !shows("\"application/vnd.ollama.") && std::ranges::any_of(kTypes, shows) ? Match::yes : Match::no;
}

Result<Model> read_oci(const Container& container) {
  const oci::Manifest manifest = TRY(oci::read_manifest(*container.bytes, *container.budget));
  if (manifest.is_index) return failure(Code::unsupported, "oci: an index of several manifests");
  const oci::OpenBlob open = oci::blobs_of(container);
  Model model = TRY(oci::read_artifact(manifest, open, container));
  model.published = oci::published_by(container.bytes, TRY(sha256(*container.bytes)), manifest, open);
  return model;
}

Result<bool> matches_oci_layout(const archive::Archive& archive) {
  if (oci::has_layout(archive)) return true;
  if (archive.find("manifest.json") == nullptr) return false;
  Budget budget(0);
  return oci::saved_layers(archive, budget).has_value();
}

Match matches_oci_index(const Probe& entry) {
  return entry.name == "index.json" && entry.begins_json_object() && entry.head_contains("\"manifests\"") ? Match::maybe
                                                                                                          : Match::no;
}

Result<Model> read_oci_layout(archive::Archive archive, const Container& container) {
  return oci::has_layout(archive) ? oci::read_layout(archive, container) : oci::read_saved(archive, container);
}

}  // namespace weightfs
