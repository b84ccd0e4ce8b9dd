#include "protocols/registry.h"

#include <fmt/core.h>
#include <sys/stat.h>

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include "base/text.h"
#include "cache/address_policy.h"
#include "cache/download/request_with_retry.h"
#include "protocols/registry/credentials.h"
#include "protocols/registry/logins.h"
#include "protocols/registry/manifest.h"

namespace weightfs {
namespace {

using namespace registry;
using download::error_detail;
using download::request_with_retry;
using download::Response;
using download::send_request;

constexpr size_t kMaxManifest = 4 * 1024 * 1024;

// An index may refer to indexes.
constexpr int kMaxIndexDepth = 3;

constexpr std::chrono::seconds kBlobCheck{30};

// All media types: docker-registry rejects manifests of types that are not listed.
constexpr const char* kAccept =
    "Accept: application/vnd.docker.distribution.manifest.v2+json, application/vnd.oci.image.manifest.v1+json, "
    "application/vnd.docker.distribution.manifest.list.v2+json, application/vnd.oci.image.index.v1+json, */*";

bool consists_of(std::string_view text, std::string_view others) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [&](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           others.find(c) != std::string_view::npos;
  });
}

// Whether it is safe in a URL's path.
bool is_path(std::string_view text) { return consists_of(text, "._-/") && is_plain_path(text); }
bool is_path_component(std::string_view text) { return is_path(text) && text.find('/') == text.npos; }

// The registry as a server like its mirrors.
Mirror server_of(const Reference& reference) {
  return {.url = fmt::format("{}://{}", reference.scheme, reference.host), .has_tags = true};
}

std::string name_of(const Reference& reference) {
  const char* mark = reference.tag.starts_with("sha256:") ? "@" : ":";
  return fmt::format("{}/{}{}{}", reference.host, reference.repository, mark, reference.tag);
}

// Normalizes the reference. No registry listens on the name "docker.io".
Result<Reference> normalize(Reference reference) {
  if (reference.host == "docker.io" || reference.host == "index.docker.io") reference.host = "registry-1.docker.io";
  if (reference.host == "registry-1.docker.io" && reference.repository.find('/') == std::string::npos)
    reference.repository.insert(0, "library/");
  const bool has_scheme = reference.scheme == "https" || reference.scheme == "http";
  const bool has_tag = parse_digest(reference.tag) || is_path_component(reference.tag);
  if (!has_scheme || !consists_of(reference.host, "._-:[]") || !is_path(reference.repository) || !has_tag)
    return failure(Code::unsupported, fmt::format("not a valid model name: {}", quoted(name_of(reference))));
  return reference;
}

struct FetchedManifest {
  std::string body;
  Digest digest;
};

// The saved text: the digest on the first line, then the manifest.
std::string serialized(const FetchedManifest& manifest) { return manifest.digest.hex() + "\n" + manifest.body; }

std::optional<FetchedManifest> load_manifest(BlobStore& store, const std::string& key) {
  const auto text = store.load_text(key);
  if (!text) return std::nullopt;
  const size_t line = std::min(text->find('\n'), text->size());
  FetchedManifest found{text->substr(std::min(line + 1, text->size())), {}};
  found.digest = sha256(found.body);
  if (found.digest.hex() != std::string_view(*text).substr(0, line)) return std::nullopt;
  return found;
}

// Null offline.
http::CredentialsPtr credentials_at(const http::ClientPtr& http, const std::string& url,
                                    const std::vector<std::string>& headers) {
  if (http == nullptr) return nullptr;
  return http->credentials({.kind = http::CredentialsName::Kind::registry, .server = url, .headers = headers})
      .value_or(nullptr);
}

// A repository at its registry, or at a mirror of it.
class Repository {
 public:
  // `mirror` is null for the registry. With `within`, a request may take this time, and is not repeated.
  Repository(const Reference& reference, const Mirror* mirror, BlobStorePtr store, http::ClientPtr http,
             std::chrono::milliseconds within = {})
      : name_(name_of(reference)),
        key_(fmt::format("manifest of {}/{} sha256:", reference.host, reference.repository)),
        store_(std::move(store)),
        is_mirror_(mirror != nullptr),
        server_(is_mirror_ ? *mirror : server_of(reference)),
        url_(repository_at(server_, reference.repository)),
        http_(std::move(http)),
        within_(within),
        credentials_(credentials_at(http_, url_, server_.headers)) {}

  const Mirror& server() const { return server_; }

  download::Origin blob(const Digest& digest) const {
    return {.url = url_of("blobs/sha256:" + digest.hex()), .credentials = credentials_, .is_mirror = is_mirror_};
  }

  // Fails with not_found or forbidden unless the registry sends the blob. Not by HEAD: it may redirect to a URL that is
  // signed for GET.
  Result<void> check_blob(const Digest& digest) {
    if (http_ == nullptr)
      return failure(Code::network, fmt::format("{}: blob not cached; retry without --offline", name_));
    const http::Request request{.url = url_of("blobs/sha256:" + digest.hex()),
                                .headers = {"Range: bytes=0-0"},
                                .credentials = credentials_,
                                .deadline = std::chrono::steady_clock::now() + kBlobCheck};
    std::optional<Response> page;
    const auto take = [&](const http::Response& head) -> Result<void> {
      page = Response{head, ""};
      return failure(Code::io, "the bytes are not needed");
    };
    const auto ignore = [](std::span<const std::byte>) -> Result<void> { return {}; };
    const auto done = http_->perform(request, {take, ignore}, store_->stop_token());
    if (!page) return done;
    const int status = page->head.status;
    if (status == 200 || status == 206 || status == 416) return {};  // 416: it is empty
    if (status == 404) return failure(Code::not_found, fmt::format("no such blob in {}", name_));
    if (status == 401 || status == 403) return failure(Code::forbidden, access_denied(*page));
    return failure(http::is_temporary(status) ? Code::network : Code::unsupported, name_ + error_detail(*page));
  }

  // The index of referrers of a digest, from the registry or from the tag; empty if there is none, nothing if neither
  // says so.
  std::optional<std::string> referrers(const Digest& digest) {
    auto response = page("referrers/sha256:" + digest.hex());
    if (!response || response->head.status != 200 || !response->body.starts_with('{'))
      response = page("manifests/sha256-" + digest.hex());
    return text_of(response);
  }

  std::optional<bool> has_cosign_tag(const Digest& digest) {
    const auto text = text_of(page(fmt::format("manifests/sha256-{}.sig", digest.hex())));
    return text ? std::optional(text->starts_with('{')) : std::nullopt;
  }

  // The manifest of a tag or digest; for an index, the selected one.
  Result<FetchedManifest> manifest(const std::string& tag, ModelIndex of_models) {
    FetchedManifest found = TRY(by_tag(tag));
    if (of_models == ModelIndex::whole && is_index_of_models(found.body)) return found;
    for (int depth = 0;; ++depth) {
      const auto chosen = TRY(selected(found.body));
      if (!chosen) return found;
      if (depth == kMaxIndexDepth)
        return failure(Code::unsupported, fmt::format("{}: indexes nested deeper than {}", name_, kMaxIndexDepth));
      found = TRY(by_digest(*chosen));
    }
  }

  // Offline only a saved one.
  Result<FetchedManifest> exact(const std::string& tag) {
    const auto digest = parse_digest(tag);
    const std::string key = "tag " + url_of("manifests/" + tag);
    if (http_ == nullptr) {
      const auto saved = digest ? digest : digest_of_hex(store_->load_text(key).value_or(""));
      auto manifest = saved ? load_manifest(*store_, key_ + saved->hex()) : std::nullopt;
      if (manifest && manifest->digest == saved) return std::move(*manifest);
      return failure(Code::network, fmt::format("{}: manifest not cached; retry without --offline", name_));
    }
    FetchedManifest found = TRY(by_tag(tag));
    if (digest) return found;
    store_->save_text(key_ + found.digest.hex(), serialized(found));
    store_->save_text(key, found.digest.hex());
    return found;
  }

 private:
  // Empty if there is no such page, nothing if the registry does not say so.
  static std::optional<std::string> text_of(const Result<Response>& page) {
    if (page && page->head.status == 200) return page->body;
    return page && page->head.status == 404 ? std::optional(std::string()) : std::nullopt;
  }

  Result<FetchedManifest> by_tag(const std::string& tag) {
    if (const auto digest = parse_digest(tag)) return by_digest(*digest);
    return check_manifest(TRY(page("manifests/" + tag)));
  }

  // A manifest that was saved is not requested again: its digest is that of its bytes.
  Result<FetchedManifest> by_digest(const Digest& digest) {
    if (auto saved = load_manifest(*store_, key_ + digest.hex()); saved && saved->digest == digest)
      return std::move(*saved);
    const std::string text = "sha256:" + digest.hex();
    auto response = TRY(page("manifests/" + text));
    // Ollama's registry serves manifests by digest as blobs.
    if (response.head.status == 404) response = TRY(page("blobs/" + text));
    FetchedManifest found = TRY(check_manifest(std::move(response)));
    if (found.digest == digest) {
      store_->save_text(key_ + digest.hex(), serialized(found));
      return found;
    }
    return failure(Code::mismatch,
                   fmt::format("{}: the manifest's SHA-256 is {}, not {}", name_, found.digest.hex(), digest.hex()));
  }

  // Ignores the content type: Ollama's registry sends text/plain.
  Result<Response> page(const std::string& path) {
    http::Request request{.url = url_of(path), .headers = {kAccept}, .credentials = credentials_};
    const bool is_timed = within_.count() > 0;
    if (is_timed) request.deadline = std::chrono::steady_clock::now() + within_;
    // A mirror that fails is not waited for.
    auto response = is_mirror_ || is_timed ? send_request(*http_, request, kMaxManifest, store_->stop_token())
                                           : request_with_retry(*http_, request, kMaxManifest, store_->stop_token());
    if (auto refused = response ? download::web_page_error(*response) : std::nullopt) return failure(*refused);
    if (is_timed && response && http::is_temporary(response->head.status))
      return failure(Code::network, name_ + error_detail(*response));
    return response;
  }

  std::string url_of(const std::string& path) const {
    return fmt::format("{}/{}{}{}", url_, path, server_.name_space.empty() ? "" : "?ns=", server_.name_space);
  }

  Result<FetchedManifest> check_manifest(Response page) {
    const int status = page.head.status;
    if (status == 404) {
      Error missing(Code::not_found, fmt::format("no such model or tag: {}{}", name_, error_detail(page)));
      if (page.body.find("NAME_UNKNOWN") != page.body.npos) missing.name = kNoRepository.data();
      return failure(std::move(missing));
    }
    if (status == 401 || status == 403) return failure(Code::forbidden, access_denied(page));
    if (status != 200) return failure(Code::unsupported, name_ + error_detail(page));
    FetchedManifest found{std::move(page.body), {}};
    found.digest = sha256(found.body);
    const auto claimed = page.head.header("docker-content-digest");
    if (claimed.starts_with("sha256:") && parse_digest(claimed) != found.digest)
      return failure(Code::mismatch, fmt::format("{}: the manifest's SHA-256 is {}, the registry reports {}", name_,
                                                 found.digest.hex(), quoted(claimed)));
    return found;
  }

  std::string access_denied(const Response& page) {
    const std::string description = credentials_->description();
    return fmt::format("access denied to {}{} ({})", name_, error_detail(page),
                       description.empty() ? "tried anonymously" : description);
  }

  // The digest of the manifest that is selected from an index; nothing for a manifest.
  Result<std::optional<Digest>> selected(const std::string& body) const {
    return select_from_index(body).map_error([&](const Error& error) {
      return Error{error.code, name_ + ": " + error.message};
    });
  }

  const std::string name_;
  const std::string key_;  // of a saved manifest, before its digest
  const BlobStorePtr store_;
  const bool is_mirror_;
  const Mirror server_;
  const std::string url_;  // "https://registry.example/v2/library/tiny"
  const http::ClientPtr http_;
  const std::chrono::milliseconds within_;
  const http::CredentialsPtr credentials_;  // null offline
};

// The store, with downloads from the registry and its mirrors.
class RegistryBlobs final : public Blobs {
 public:
  RegistryBlobs(BlobStorePtr store, std::vector<Repository> repositories)
      : store_(std::move(store)), repositories_(std::move(repositories)) {}

  SourcePtr blob(BlobProducer producer) override { return store_->blob(std::move(producer)); }
  Result<SourcePtr> materialize(BlobProducer producer) override { return store_->materialize(std::move(producer)); }
  bool is_decoded(const BlobProducer& producer) override { return store_->is_decoded(producer); }
  void release(const Digest& blob) override { store_->release(blob); }
  void release_ranges(const std::string& identity) override { store_->release_ranges(identity); }
  Result<ResolvedBlob> resolve(const BlobRef& ref) override {
    std::vector<download::Origin> origins;
    for (const Repository& repository : repositories_)
      if (repository.server().has_digests) origins.push_back(repository.blob(ref.digest));
    return store_->resolve_from(ref, std::move(origins));
  }
  bool is_local(const BlobRef& ref) override { return store_->is_local(ref); }
  void drop_unverified() override { store_->drop_unverified(); }
  void stop() override { store_->stop(); }

 private:
  BlobStorePtr store_;
  std::vector<Repository> repositories_;  // mirrors first
};

std::string existing_path(const char* variable, const std::string& below) {
  const std::string directory = environment(variable);
  if (directory.empty()) return {};
  const std::string path = directory + below;
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 ? path : std::string();
}

}  // namespace

Result<std::vector<RepositoryPlace>> repositories_of(const Reference& requested, const std::vector<Mirror>& mirrors) {
  const Reference reference = TRY(normalize(requested));
  std::vector<RepositoryPlace> out;
  const auto add = [&](const Mirror& server) {
    out.push_back({{.kind = http::CredentialsName::Kind::registry,
                    .server = repository_at(server, reference.repository),
                    .headers = server.headers},
                   server.name_space.empty() ? "" : "ns=" + server.name_space});
  };
  for (const Mirror& mirror : mirrors) add(mirror);
  add(server_of(reference));
  return out;
}

CredentialPaths CredentialPaths::of_user() {
  return {existing_path("HOME", "/.ollama/id_ed25519"),
          environment("DOCKER_CONFIG").empty() ? existing_path("HOME", "/.docker/config.json")
                                               : existing_path("DOCKER_CONFIG", "/config.json"),
          auth_files_of_user()};
}

Result<ResolvedManifest> resolve(const Reference& requested, const BlobStorePtr& store, const http::ClientPtr& http,
                                 ModelIndex of_models, const std::vector<Mirror>& mirrors) {
  const Reference reference = TRY(normalize(requested));
  const Mirror registry = server_of(reference);
  const std::string from = fmt::format("{}/manifests/{}", repository_at(registry, reference.repository), reference.tag);
  const std::string key = "manifest " + from;
  std::vector<Repository> repositories;  // mirrors first
  for (const Mirror& mirror : mirrors) repositories.emplace_back(reference, &mirror, store, http);
  repositories.emplace_back(reference, nullptr, store, http);
  const auto resolved = [&](FetchedManifest manifest) {
    auto blobs = std::make_shared<RegistryBlobs>(store, repositories);
    return ResolvedManifest{std::move(manifest.body), manifest.digest, from, std::move(blobs)};
  };
  if (http == nullptr) {
    auto manifest = load_manifest(*store, key);
    if (!manifest)
      return failure(Code::network,
                     fmt::format("{}: manifest not cached; retry without --offline", name_of(reference)));
    return resolved(std::move(*manifest));
  }
  if (!http->options().insecure && !is_confidential(registry.url))
    return failure(Code::forbidden, fmt::format("{}: http:// needs --insecure", registry.url));
  const bool is_digest = parse_digest(reference.tag).has_value();
  Result<FetchedManifest> manifest = failure(Code::network, "");
  for (Repository& repository : repositories)
    if (!manifest && (is_digest ? repository.server().has_digests : repository.server().has_tags))
      manifest = repository.manifest(reference.tag, of_models);
  if (!manifest) {
    Error error = manifest.error();
    if (is_about_the_network(error) && load_manifest(*store, key))
      error.message += "; use --offline for the saved manifest";
    return tl::unexpected(std::move(error));
  }
  store->save_text(key, serialized(*manifest));
  return resolved(std::move(*manifest));
}

Result<ExactManifest> find_manifest(const Reference& requested, const BlobStorePtr& store, const http::ClientPtr& http,
                                    std::chrono::milliseconds within) {
  const Reference reference = TRY(normalize(requested));
  FetchedManifest found = TRY(Repository(reference, nullptr, store, http, within).exact(reference.tag));
  return ExactManifest{std::move(found.body), found.digest};
}

Result<SourcePtr> open_blob(const Reference& requested, const Digest& digest, const BlobStorePtr& store,
                            const http::ClientPtr& http) {
  const Reference reference = TRY(normalize(requested));
  const BlobRef ref{fmt::format("{}/{}@sha256:{}", reference.host, reference.repository, digest.hex()), digest, {}};
  Repository repository(reference, nullptr, store, http);
  const download::Origin origin = repository.blob(digest);
  // The digest alone would open what is cached of other repositories and sources, and what other programs have.
  const std::string key = "blob of " + origin.url;
  const bool is_known = store->load_text(key).has_value();
  if (!is_known && store->is_local(ref)) TRY_VOID(repository.check_blob(digest));
  const ResolvedBlob found = TRY(store->resolve_from(ref, {origin}));
  if (!is_known) store->save_text(key, "1");
  return found.verified;
}

std::vector<Referrer> referrers(const Reference& requested, const Digest& digest, const BlobStorePtr& store,
                                const http::ClientPtr& http, Saved use) {
  const auto reference = normalize(requested);
  if (!reference) return {};
  const std::string url = repository_at(server_of(*reference), reference->repository);
  const std::string key = fmt::format("referrers {} sha256:{}", url, digest.hex());
  std::string saved = store->load_text(key).value_or("");
  if (http != nullptr && (use == Saved::refreshed || saved.empty())) {
    Repository repository(*reference, nullptr, store, http);
    const auto index = repository.referrers(digest);
    const auto is_signed = repository.has_cosign_tag(digest);
    saved = index.value_or("") + (is_signed.value_or(false) ? "\n+cosign" : "\n");
    if (index && is_signed) store->save_text(key, saved);
  }
  const size_t end = std::min(saved.rfind('\n'), saved.size());
  std::vector<Referrer> found = referrers_in(saved.substr(0, end));
  if (saved.ends_with("\n+cosign")) found.push_back({"", "application/vnd.dev.cosign.simplesigning.v1+json"});
  return found;
}

}  // namespace weightfs
