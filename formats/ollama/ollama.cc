// Reads Ollama manifests as models: first from the manifest alone, and completely after the needed blobs are fetched.
#include "formats/ollama/ollama.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <utility>

#include "base/text.h"
#include "base/values/rendering.h"

namespace weightfs::ollama {
namespace {

Map described(const Descriptor& descriptor, const std::string& path) {
  Map out;
  const auto add = [&](const char* key, const std::string& text) {
    if (!text.empty()) out.append(key, text);
  };
  add("media_type", descriptor.media_type);
  add("digest", descriptor.digest_text);
  if (descriptor.size) out.append("size", *descriptor.size);
  add("name", descriptor.name);
  add("from", descriptor.from);
  add("runner", descriptor.runner);
  add("path", path);
  return out;
}

// The config, if present, is the first item.
size_t layers_begin(const Package& package) { return package.manifest.config ? 1 : 0; }

// The description of a layer is a Map of up to seven strings.
constexpr uint64_t kValuesPerLayer = 8;

// Layers, or the manifests of a list.
List described(const Package& package, size_t begin, size_t count) {
  List list;
  for (size_t i = begin; i < begin + count; ++i) {
    const Item& item = package.items[i];
    list.push_back(described(item.layer.descriptor, item.blob == nullptr ? "" : item.layer.path));
  }
  return list;
}

// The facts of the manifest itself. A long list of layers becomes a document.
Map facts_of(const PackagePtr& package, Model& model) {
  const Manifest& manifest = package->manifest;
  Map facts;
  facts.append("digest", "sha256:" + package->digest.hex());
  facts.append("id", manifest.id);
  if (manifest.schema_version != 0) facts.append("schema_version", manifest.schema_version);
  if (!manifest.media_type.empty()) facts.append("media_type", manifest.media_type);
  if (manifest.config) facts.append("config", described(*package, 0, 1).front());
  const auto add = [&](const char* key, size_t begin, size_t count) {
    if (count <= kMaxInlineList) return facts.append(key, described(*package, begin, count));
    Map note;
    note.append("count", count);
    note.append("path", fmt::format("metadata/manifest.{}.json", key));
    model.documents.push_back(
        {fmt::format("metadata/manifest.{}.json", key), Later<SourcePtr>([=]() -> Result<SourcePtr> {
           const BudgetPtr& budget = package->container.budget;
           Charges charges(*budget);  // for the list, until it is rendered
           TRY_VOID(charges.charge(Cost::value, kValuesPerLayer * count));
           return charged_text(TRY(to_json(described(*package, begin, count), *budget)), budget);
         })});
    facts.append(key, std::move(note));
  };
  const size_t layers = manifest.layers.size();
  add("layers", layers_begin(*package), layers);
  if (!manifest.manifests.empty()) add("manifests", layers_begin(*package) + layers, manifest.manifests.size());
  return facts;
}

// The index of the item whose tensors are the model's own; the number of items if there is none.
size_t main_model(const Package& package) {
  const auto& items = package.items;
  const auto found = std::find_if(items.begin(), items.end(), [](const Item& item) {
    return item.layer.kind == LayerKind::model && item.blob != nullptr && item.layer.content != Content::other;
  });
  return static_cast<size_t>(found - items.begin());
}

Container container_of(const Package& package, const Item& item, SourcePtr bytes) {
  const std::string& path = item.layer.path;
  // Only a manifest needs the blobs next to it.
  const bool is_manifest = item.layer.kind == LayerKind::manifest;
  return {.name = path.substr(path.rfind('/') + 1),
          .bytes = std::move(bytes),
          .folder = is_manifest ? package.container.folder : nullptr,
          .blobs = package.container.blobs,
          .depth = package.container.depth + 1,
          .budget = package.container.budget};
}

Result<ModelPtr> read_nested(const Package& package, const Item& item) {
  const ResolvedBlob found = TRY(item.blob->found.get());
  const SourcePtr verified = TRY(item.blob->bytes.get());
  const Container container = container_of(package, item, found.unverified);
  auto model = read_from_unverified(container, verified);
  if (model) {
    model->budget = container.budget;
    return std::make_shared<const Model>(std::move(*model));
  }
  const std::string& message = model.error().message;
  const std::string name = printable(container.name) + ": ";
  return failure(with_message(model.error(), fmt::format("{}{}", message.starts_with(name) ? "" : name, message)));
}

// Whether the item is a nested container. A blob that is not local is judged by its media type.
Result<bool> is_nested(const Package& package, const Item& item) {
  if (item.blob->is_local) return could_be_model(container_of(package, item, TRY(item.blob->found.get()).unverified));
  return item.layer.is_container() || item.layer.kind == LayerKind::manifest;
}

// The indices of items that may be containers, except the model itself.
std::vector<size_t> beside_model(const Package& package) {
  const size_t model = main_model(package);
  std::vector<size_t> places;
  for (size_t i = 0; i < package.items.size(); ++i) {
    const Item& item = package.items[i];
    const LayerKind kind = item.layer.kind;
    const bool may_be = item.layer.is_container() || kind == LayerKind::manifest || kind == LayerKind::other;
    if (may_be && item.blob != nullptr && i != model) places.push_back(i);
  }
  return places;
}

Result<std::vector<Nested>> nested_in(const PackagePtr& package, const std::vector<size_t>& places) {
  std::vector<Nested> nested;
  // A blob is detected and read once, under its first name.
  std::map<const LayerBlob*, std::optional<Later<ModelPtr>>> models;
  for (const size_t i : places) {
    const Item& item = package->items[i];
    const auto [row, is_new] = models.try_emplace(item.blob.get());
    if (is_new) {
      TRY_VOID(package->container.budget->charge(Cost::input, kHeadSize));
      if (TRY(is_nested(*package, item))) row->second.emplace([=] { return read_nested(*package, package->items[i]); });
    }
    if (row->second) nested.push_back({item.part, *row->second});
  }
  return nested;
}

// The part of the model that needs no blob.
Model outline_of(const PackagePtr& package) {
  Model model;
  model.format = "ollama";
  const int64_t schema = package->manifest.schema_version;
  model.version = schema == 0 ? "document layout" : fmt::format("schemaVersion {}", schema);
  model.metadata.append("manifest", facts_of(package, model));
  model.parts = package->parts;
  model.published = std::make_shared<const Published>(Published{{{package->digest}}});
  model.stored_bytes = package->stored_bytes;
  const auto places = beside_model(*package);
  if (package->container.depth < kMaxNestingDepth && !places.empty())
    model.nested = [package, places](const ModelPtr&) { return nested_in(package, places); };
  return model;
}

Result<Model> complete_model_of(const PackagePtr& package) {
  Model model = outline_of(package);
  Warnings warnings;
  warnings.append(package->warnings, "");
  TRY_VOID(add_contents(*package, model, warnings));
  std::move(warnings).move_to(model);
  return model;
}

Result<Model> read(const Container& container) {
  const auto package = std::make_shared<const Package>(TRY(open_package(container)));
  if (std::none_of(package->items.begin(), package->items.end(), needs_fetch)) return complete_model_of(package);
  Model model = outline_of(package);
  Warnings warnings;
  warnings.append(package->warnings, "");
  std::move(warnings).move_to(model);
  model.complete_model = std::make_unique<const Later<ModelPtr>>(
      [package]() -> Result<ModelPtr> { return std::make_shared<const Model>(TRY(complete_model_of(package))); });
  return model;
}

}  // namespace
}  // namespace weightfs::ollama

namespace weightfs {

// A manifest begins with its schema version, media type, config or layers. Other JSON files of models (config.json, a
// tokenizer, an index of shards) have neither these keys nor these media types.
Match matches_ollama(const Probe& probe) {
  if (!probe.begins_json_object() || probe.size > ollama::kMaxManifestSize) return Match::no;
  const auto shows = [&](std::string_view text) { return probe.head_contains(text); };
  if (shows("\"application/vnd.ollama.manifest.list.") && shows("\"manifests\"")) return Match::yes;
  if (!shows("\"layers\"")) return Match::no;
  constexpr std::array<std::string_view, 4> kTypes = {
      "\"application/vnd.ollama.image.",
      "\"application/vnd.docker.distribution.manifest.v2+json\"",
      "\"application/vnd.docker.container.image.v1+json\"",
      "\"application/vnd.oci.image.manifest.v1+json\"",
  };
  return std::any_of(kTypes.begin(), kTypes.end(), shows) && shows("\"mediaType\"") ? Match::yes : Match::no;
}

Result<Model> read_ollama(const Container& container) { return ollama::read(container); }

}  // namespace weightfs
