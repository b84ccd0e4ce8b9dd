#include "serve/registry/published_manifest.h"

#include <algorithm>
#include <array>

#include "base/values/json.h"
#include "report/text/map_of.h"
#include "serve/registry/made.h"
#include "serve/registry/names.h"

namespace weightfs::distribution {
namespace {

constexpr uint64_t kMaxManifestValues = 1'000'000;

Result<Map> parse_manifest(const std::string& text) {
  const SourcePtr bytes = in_memory(text);
  Budget budget(text.size());
  Value value = TRY(parse_json(*bytes, 0, text.size(), budget, kMaxManifestValues));
  auto* const fields = std::get_if<Map>(&value);
  if (fields == nullptr) return failure(Code::not_found, "not a manifest");
  return std::move(*fields);
}

}  // namespace

std::string tag_in(const std::string& name) {
  const size_t colon = name.rfind(':');
  std::string tag = colon == name.npos || name.find('/', colon) != name.npos ? name : name.substr(colon + 1);
  return is_tag(tag) ? tag : "";
}

bool has_tag(const PublishedManifest& manifest, const std::string& tag) {
  return std::ranges::any_of(manifest.tags, [&](const std::string& each) { return tag_in(each) == tag; });
}

Result<SourcePtr> open_published(const Model& model, const Digest& digest) {
  if (model.published->open) return model.published->open(digest);
  for (const Part& part : model.parts)
    if (const Digest* const own = part.checksums.get<Digest>(); own != nullptr && *own == digest)
      return part.source.get();
  return failure(Code::not_found, "no such blob");
}

Result<std::string> text_of_manifest(const Model& model, const Digest& digest) {
  const SourcePtr bytes = TRY(open_published(model, digest));
  if (bytes->size() > kMaxManifest) return failure(Code::unsupported, "the manifest is too large");
  return read_text(*bytes, 0, bytes->size());
}

bool is_for_ollama(const std::string& manifest) { return manifest.find("application/vnd.ollama.") != manifest.npos; }

bool publishes_for_ollama(const Model& model) {
  return std::ranges::all_of(model.published->manifests, [&](const PublishedManifest& each) {
    const auto text = text_of_manifest(model, each.digest);
    return text && is_for_ollama(*text);
  });
}

Result<std::string> type_of(const std::string& text) {
  constexpr std::array<std::string_view, 5> kTypes = {kOciManifest, kOciIndex, kDockerManifest,
                                                      "application/vnd.docker.distribution.manifest.list.v2+json",
                                                      "application/vnd.oci.artifact.manifest.v1+json"};
  const Map fields = TRY(parse_manifest(text));
  const auto stated = std::ranges::find(kTypes, text_in(fields, "mediaType"));
  if (stated != kTypes.end()) return std::string(*stated);
  if (fields.find_as<List>("manifests") != nullptr) return std::string(kOciIndex);
  if (is_for_ollama(text)) return std::string(kDockerManifest);
  if (fields.find_as<List>("layers") == nullptr) return failure(Code::not_found, "not a manifest");
  return std::string(kOciManifest);
}

std::optional<Map> referrer_in(const Model& model, const Digest& manifest, const Digest& of) {
  const auto text = text_of_manifest(model, manifest);
  const auto fields = text ? parse_manifest(*text) : tl::unexpected(text.error());
  const Map* const subject = fields ? fields->find_as<Map>("subject") : nullptr;
  if (subject == nullptr || parse_digest(text_in(*subject, "digest")) != of) return std::nullopt;
  std::string type(text_in(*fields, "artifactType"));
  if (const Map* const config = fields->find_as<Map>("config"); type.empty() && config != nullptr)
    type = text_in(*config, "mediaType");
  Map entry = map_of({{"mediaType", type_of(*text).value_or(kOciManifest)},
                      {"digest", "sha256:" + manifest.hex()},
                      {"size", text->size()}});
  if (!type.empty()) entry.append("artifactType", type);
  if (const Map* const notes = fields->find_as<Map>("annotations")) entry.append("annotations", *notes);
  return entry;
}

}  // namespace weightfs::distribution
