#include "protocols/registry/manifest.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/os/platform.h"
#include "base/text.h"
#include "base/values/json.h"

namespace weightfs::registry {
namespace {

// An entry without a platform may be for any.
PlatformFit fit_of(const Map& entry) {
  const Map* platform = entry.find_as<Map>("platform");
  if (platform == nullptr) return PlatformFit::other;
  return fit_of_platform(text_in(*platform, "os"), text_in(*platform, "architecture"));
}

// Cog lists the weights of a model beside the image that has its code.
bool has_weights(const Map& entry) {
  const Map* annotations = entry.find_as<Map>("annotations");
  return annotations != nullptr && text_in(*annotations, "vnd.cog.reference.type") == "weights";
}

size_t count_weights(const List& entries) {
  return static_cast<size_t>(std::ranges::count_if(entries, [](const Value& value) {
    const auto* entry = std::get_if<Map>(&value);
    return entry != nullptr && has_weights(*entry);
  }));
}

const Map* chosen(const List& entries) {
  const Map* best = nullptr;
  for (const Value& value : entries) {
    const auto* entry = std::get_if<Map>(&value);
    if (entry != nullptr && has_weights(*entry)) return entry;
    if (entry != nullptr && (best == nullptr || fit_of(*entry) > fit_of(*best))) best = entry;
  }
  return best;
}

Result<Value> parsed(const std::string& body) {
  const SourcePtr source = in_memory(body);
  return parse_json(*source, 0, source->size());
}

// The list of layers of a manifest, or of manifests of an index; null if it has none.
const List* list_in(const Result<Value>& parsed_body, std::string_view key) {
  const auto* manifest = parsed_body ? std::get_if<Map>(&*parsed_body) : nullptr;
  return manifest == nullptr ? nullptr : manifest->find_as<List>(key);
}

// The objects in such a list.
std::vector<Map> objects_in(const std::string& body, std::string_view key) {
  std::vector<Map> found;
  const auto value = parsed(body);
  const List* list = list_in(value, key);
  if (list == nullptr) return found;
  for (const Value& each : *list)
    if (const auto* object = std::get_if<Map>(&each)) found.push_back(*object);
  return found;
}

}  // namespace

bool is_index_of_models(const std::string& body) {
  const auto value = parsed(body);
  const List* entries = list_in(value, "manifests");
  if (entries == nullptr || entries->size() < 2) return false;
  if (const size_t weights = count_weights(*entries); weights > 0) return weights > 1;
  return std::none_of(entries->begin(), entries->end(), [](const Value& each) {
    const auto* entry = std::get_if<Map>(&each);
    return entry == nullptr || entry->find("platform") != nullptr;
  });
}

std::vector<Referrer> referrers_in(const std::string& body) {
  constexpr size_t kMaxReferrers = 100;
  std::vector<Referrer> found;
  for (const Map& entry : objects_in(body, "manifests")) {
    if (found.size() == kMaxReferrers) break;
    const std::string_view type = text_in(entry, "artifactType");
    found.push_back(
        {std::string(text_in(entry, "digest")), std::string(type.empty() ? text_in(entry, "mediaType") : type)});
  }
  return found;
}

Result<std::optional<Digest>> select_from_index(const std::string& body) {
  const auto value = parsed(body);
  if (!value) return failure(Code::unsupported, "not a manifest: " + value.error().message);
  const auto* manifest = std::get_if<Map>(&*value);
  if (manifest == nullptr) return failure(Code::unsupported, "not a manifest: not a JSON object");
  if (manifest->find("layers") != nullptr || manifest->find("config") != nullptr) return std::nullopt;
  const List* entries = manifest->find_as<List>("manifests");
  if (entries == nullptr) return failure(Code::unsupported, "not a manifest: no layers, no config and no manifests");
  const Map* entry = chosen(*entries);
  if (entry == nullptr) return failure(Code::unsupported, "index without manifests");
  const std::string_view text = text_in(*entry, "digest");
  const auto digest = parse_digest(text);
  if (!digest) return failure(Code::unsupported, fmt::format("index entry {} is not a SHA-256 digest", quoted(text)));
  return digest;
}

}  // namespace weightfs::registry

namespace weightfs {

std::vector<IndexedModel> models_in_index(const std::string& manifest) {
  constexpr size_t kMaxModels = 10'000;
  std::vector<IndexedModel> found;
  if (!registry::is_index_of_models(manifest)) return found;
  const std::vector<Map> entries = registry::objects_in(manifest, "manifests");
  const bool are_weights = std::ranges::any_of(entries, registry::has_weights);
  for (const Map& entry : entries) {
    if (are_weights && !registry::has_weights(entry)) continue;
    const auto digest = parse_digest(text_in(entry, "digest"));
    if (!digest || found.size() == kMaxModels) continue;
    const Map* annotations = entry.find_as<Map>("annotations");
    std::string name;
    for (const char* key :
         {"org.opencontainers.image.ref.name", "org.opencontainers.image.title", "vnd.cog.weight.name"})
      if (annotations != nullptr && name.empty()) name = text_in(*annotations, key);
    found.push_back({name.empty() ? digest->hex().substr(0, 12) : std::move(name), *digest});
  }
  return found;
}

std::vector<BlobRef> layers_of(const std::string& manifest) {
  constexpr size_t kMaxLayers = 10'000;
  std::vector<BlobRef> found;
  for (const Map& layer : registry::objects_in(manifest, "layers")) {
    const auto digest = parse_digest(text_in(layer, "digest"));
    const auto* size = digest ? layer.find_as<int64_t>("size") : nullptr;
    if (size == nullptr || *size < 0 || found.size() == kMaxLayers) continue;
    found.push_back({"sha256:" + digest->hex(), *digest, static_cast<uint64_t>(*size)});
  }
  return found;
}

}  // namespace weightfs
