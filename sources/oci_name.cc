// A SOURCE that is a model in a registry: `oci://HOST/REPOSITORY[:TAG|@sha256:DIGEST]`. Reference: the names of images
// (distribution-spec, "Pulling manifests"; the host is always written).
#include <fmt/core.h>

#include <string_view>

#include "base/text.h"
#include "cache/address_policy.h"
#include "cache/url.h"
#include "protocols/azure.h"
#include "protocols/gcs.h"
#include "protocols/registry.h"
#include "protocols/registry_server.h"
#include "protocols/s3.h"
#include "sources/block_list.h"
#include "sources/kinds.h"
#include "sources/remote_model.h"

namespace weightfs {
namespace {

Result<Reference> parse_reference(std::string_view text) {
  const auto wrong = [&](std::string_view problem) {
    return failure(Code::unsupported, fmt::format("oci:{}: {}", text, problem));
  };
  if (!text.starts_with("//")) return wrong("write oci://HOST/REPOSITORY:TAG");
  std::string_view rest = text.substr(2);
  const size_t slash = rest.find('/');
  if (slash == rest.npos || slash == 0 || slash + 1 == rest.size()) return wrong("write oci://HOST/REPOSITORY:TAG");
  Reference reference;
  reference.host = lower_case(rest.substr(0, slash));
  if (reference.host.find_first_of(".:") == std::string::npos && reference.host != "localhost")
    return wrong(fmt::format("names no registry; on Docker Hub it is oci://docker.io/{}", rest));
  rest.remove_prefix(slash + 1);
  std::string_view digest;
  if (const size_t at = rest.find('@'); at != rest.npos) {
    digest = rest.substr(at + 1);
    rest = rest.substr(0, at);
    if (!digest.starts_with("sha256:") || !parse_digest(digest)) return wrong("only sha256 digests are supported");
  }
  const size_t colon = rest.rfind(':');
  const bool has_tag = colon != rest.npos && rest.find('/', colon) == rest.npos;
  reference.repository = rest.substr(0, has_tag ? colon : rest.npos);
  reference.tag = !digest.empty() ? std::string(digest) : has_tag ? std::string(rest.substr(colon + 1)) : "latest";
  if (reference.repository.empty() || reference.tag.empty()) return wrong("has no repository or an empty tag");
  return reference;
}

// A repository, and how its models are opened.
struct Registry {
  Reference reference;
  OpenOptions options;

  std::string name() const { return reference.repository.substr(reference.repository.rfind('/') + 1); }

  std::string shown(const Digest& digest) const {
    const std::string tag = parse_digest(reference.tag) ? "" : ":" + reference.tag;
    return fmt::format("oci://{}/{}{}@sha256:{}", reference.host, reference.repository, tag, digest.hex());
  }

  Result<ResolvedManifest> resolved(ModelIndex of_models) const {
    const RegistryOptions& registries = options.registries;
    return resolve(reference, registries.store, registries.http, of_models, mirrors_of(reference, options));
  }
};

Result<Reference> reference_of(const std::string& text, const OpenOptions& options) {
  Reference reference = TRY(parse_reference(text));
  if (options.registries.plain_http || is_loopback_host(reference.host)) reference.scheme = "http";
  return reference;
}

Result<Registry> registry_of(const std::string& text, const OpenOptions& options) {
  if (options.registries.store == nullptr)
    return failure(Code::unsupported, fmt::format("oci:{}: registries are not available here", text));
  Reference reference = TRY(reference_of(text, options));
  return Registry{std::move(reference), options};
}

// A manifest of Ollama is read as such. Others need no known media type: the user says that it is an artifact.
const Format* format_of(const std::string& manifest, const OpenOptions& options) {
  if (options.forced != nullptr) return options.forced;
  return manifest.find("\"application/vnd.ollama.") == manifest.npos ? format_named("oci") : nullptr;
}

Result<Opened> open_artifact(const Registry& registry, const ResolvedManifest& found, Time time) {
  const Container container{
      .name = registry.name(), .bytes = in_memory(found.manifest), .blobs = found.blobs, .file = registry.options.file};
  Model model = TRY(read_remote_model(container, format_of(found.manifest, registry.options)));
  const RegistryOptions& registries = registry.options.registries;
  List signatures;
  for (const Referrer& each :
       referrers(registry.reference, found.digest, registries.store, registries.http, Saved::accepted))
    signatures.push_back(each.type);
  if (!signatures.empty()) model.common.set("referrers", std::move(signatures));
  return OpenedModel{std::make_shared<Model>(std::move(model)), registry.shown(found.digest), time};
}

// The models of an index, each under the name that it has there.
Result<Opened> open_index(const Registry& registry, const ResolvedManifest& index, Time time) {
  Listing listing{{}, time, 0};
  for (const IndexedModel& model : models_in_index(index.manifest)) {
    Registry one = registry;
    one.reference.tag = "sha256:" + model.digest.hex();
    listing.entries.push_back({model.name, time, 0, [one, time]() -> Result<Opened> {
                                 const ResolvedManifest found = TRY(one.resolved(ModelIndex::selected));
                                 return open_artifact(one, found, time);
                               }});
  }
  return listing;
}

}  // namespace

std::string name_of_repository(const Reference& reference) { return reference.host + "/" + reference.repository; }

std::vector<Mirror> mirrors_of(const Reference& reference, const OpenOptions& options) {
  const RegistryOptions& registries = options.registries;
  if (registries.http == nullptr) return {};
  if (registries.known_mirrors != nullptr) {
    const auto known = registries.known_mirrors->find(name_of_repository(reference));
    return known == registries.known_mirrors->end() ? std::vector<Mirror>() : known->second;
  }
  return mirrors_for(reference.host, reference.repository, registries.mirrors, MirrorFiles::of_user(), options.log);
}

Result<SourceEntry> find_oci_name(const std::string& text, const OpenOptions& options, Check /*check*/) {
  const Registry registry = TRY(registry_of(text, options));
  ResolvedManifest found = TRY(registry.resolved(ModelIndex::whole));
  const Time time = time_now();
  const bool is_index = !models_in_index(found.manifest).empty();
  found.blobs = TRY(with_block_list(registry.reference, found, options.registries));
  return SourceEntry{
      registry.name(), time, 0,
      [=] { return is_index ? open_index(registry, found, time) : open_artifact(registry, found, time); },
      found.digest.hex()};
}

Result<SourcePtr> open_oci_layer(const std::string& text, const OpenOptions& options) {
  const Registry registry = TRY(registry_of(text, options));
  return open_large_layer("oci:" + text, TRY(registry.resolved(ModelIndex::selected)));
}

Result<std::optional<Reference>> reference_of_oci_name(const std::string& text, const OpenOptions& options) {
  return reference_of(text, options);
}

void read_keys_of_registry(const Reference& reference, OpenOptions& options) {
  const auto of_result = [](Result<s3::Settings> found) {
    return std::make_shared<const s3::Settings>(found ? *std::move(found)
                                                      : s3::Settings{.note = found.error().message});
  };
  RegistryOptions& registries = options.registries;
  const std::string origin = http::origin_of(fmt::format("{}://{}", reference.scheme, reference.host));
  const Cloud cloud = cloud_of(origin);
  if (cloud == Cloud::none) return;
  registries.clouds.registries.origins.push_back(origin);
  if (cloud == Cloud::amazon && registries.clouds.s3 == nullptr)
    registries.clouds.s3 = of_result(s3::Settings::of_user(registries.bucket_flags));
  if (cloud == Cloud::google && registries.clouds.google == nullptr)
    registries.clouds.google = of_result(gcs::settings_of_user(registries.bucket_flags));
  if (cloud == Cloud::azure && registries.clouds.registries.azure == nullptr)
    registries.clouds.registries.azure = std::make_shared<const azure::Settings>(azure::tokens_for_registries());
}

Result<std::vector<Scope>> scopes_of_repository(const Reference& reference, const OpenOptions& options) {
  std::vector<Scope> scopes;
  for (RepositoryPlace& place : TRY(repositories_of(reference, mirrors_of(reference, options))))
    scopes.push_back({.below = http::normalized_url(place.credentials.server + "/"),
                      .paths = Scope::Paths::registry,
                      .credentials = std::move(place.credentials),
                      .query = std::move(place.query)});
  return scopes;
}

Scope scope_of_repositories(const std::string& server, std::vector<std::string> patterns) {
  return {.below = http::normalized_url(server + "/v2/"),
          .paths = Scope::Paths::repositories,
          .credentials = {.kind = http::CredentialsName::Kind::registry},
          .patterns = std::move(patterns)};
}

http::CredentialsName credentials_in(const Scope& scope, const std::string& url) {
  http::CredentialsName name = scope.credentials;
  if (scope.paths == Scope::Paths::repositories)
    name.server = scope.below + registry::repository_in(http::normalized_url(url), scope.below);
  return name;
}

}  // namespace weightfs
