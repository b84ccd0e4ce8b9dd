#include "cache/registry.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "base/text.h"
#include "cache/address_policy.h"
#include "cache/registry/credentials.h"
#include "cache/registry/manifest.h"
#include "cache/registry/request_with_retry.h"

namespace weightfs {
namespace {

constexpr size_t kLongestManifest = 4 * 1024 * 1024;

// An index may be of indexes.
constexpr int kDeepestIndex = 3;

// Every kind by its name: docker-registry denies what is not asked for so.
constexpr const char* kAccept =
    "Accept: application/vnd.docker.distribution.manifest.v2+json, application/vnd.oci.image.manifest.v1+json, "
    "application/vnd.docker.distribution.manifest.list.v2+json, application/vnd.oci.image.index.v1+json, */*";

bool consists_of(std::string_view text, std::string_view others) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [&](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           others.find(c) != std::string_view::npos;
  });
}

// Whether it can be a part of a URL's path that means itself.
bool is_component(std::string_view text) { return consists_of(text, "._-") && text != "." && text != ".."; }

bool is_path(std::string_view text) {
  while (true) {
    const size_t slash = text.find('/');
    if (!is_component(text.substr(0, slash))) return false;
    if (slash == std::string_view::npos) return true;
    text.remove_prefix(slash + 1);
  }
}

std::string name_of(const Reference& reference) {
  const char* mark = reference.tag.starts_with("sha256:") ? "@" : ":";
  return str(reference.host, "/", reference.repository, mark, reference.tag);
}

// The reference as its registry understands it. "docker.io" is a name that no registry listens on.
Result<Reference> canonical(Reference reference) {
  if (reference.host == "docker.io" || reference.host == "index.docker.io") reference.host = "registry-1.docker.io";
  if (reference.host == "registry-1.docker.io" && reference.repository.find('/') == std::string::npos)
    reference.repository.insert(0, "library/");
  const bool has_scheme = reference.scheme == "https" || reference.scheme == "http";
  const bool has_tag = digest_of_text(reference.tag) || is_component(reference.tag);
  if (!has_scheme || !consists_of(reference.host, "._-:[]") || !is_path(reference.repository) || !has_tag)
    return failure(Code::unsupported, str("no name of a model in a registry: ", quoted(name_of(reference))));
  return reference;
}

// The store, for what this registry has.
class RegistryBlobs final : public Blobs {
 public:
  RegistryBlobs(BlobStorePtr store, std::string repository, std::shared_ptr<Credentials> credentials)
      : store_(std::move(store)), repository_(std::move(repository)), credentials_(std::move(credentials)) {}

  SourcePtr blob(Recipe recipe) override { return store_->blob(std::move(recipe)); }
  Result<SourcePtr> made(Recipe recipe) override { return store_->made(std::move(recipe)); }
  Result<Found> named(const Wanted& wanted) override {
    return store_->fetched(wanted, {{repository_ + "/blobs/sha256:" + wanted.digest.hex(), Trust::user, credentials_}});
  }
  bool is_at_hand(const Wanted& wanted) override { return store_->is_at_hand(wanted); }
  void stop() override { store_->stop(); }

 private:
  BlobStorePtr store_;
  std::string repository_;  // its URL
  std::shared_ptr<Credentials> credentials_;
};

struct Manifest {
  std::string body;
  Digest digest;
};

// One repository of a registry, being asked for a manifest.
class Repository {
 public:
  Repository(const Reference& reference, std::string url, HttpPtr http, const Keys& keys)
      : name_(name_of(reference)),
        url_(std::move(url)),
        http_(std::move(http)),
        credentials_(std::make_shared<RegistryCredentials>(http_, url_, keys)) {}

  const std::shared_ptr<RegistryCredentials>& credentials() const { return credentials_; }

  // The manifest that the tag, or the digest, means; of an index the one that is chosen.
  Result<Manifest> manifest(const std::string& tag) {
    Manifest found = TRY(by_tag(tag));
    for (int depth = 0;; ++depth) {
      const auto chosen = TRY(named(chosen_of_index(found.body)));
      if (!chosen) return found;
      if (depth == kDeepestIndex)
        return failure(Code::unsupported, str(name_, ": indexes nested deeper than ", kDeepestIndex));
      found = TRY(by_digest(*chosen));
    }
  }

 private:
  Result<Manifest> by_tag(const std::string& tag) {
    if (const auto digest = digest_of_text(tag)) return by_digest(*digest);
    return taken(TRY(page(url_ + "/manifests/" + tag)));
  }

  Result<Manifest> by_digest(const Digest& digest) {
    const std::string text = "sha256:" + digest.hex();
    auto answer = TRY(page(url_ + "/manifests/" + text));
    // Ollama's registry has manifests by digest among the blobs.
    if (answer.answer.status == 404) answer = TRY(page(url_ + "/blobs/" + text));
    Manifest found = TRY(taken(std::move(answer)));
    if (found.digest == digest) return found;
    return failure(Code::mismatch,
                   str(name_, ": the manifest's SHA-256 is ", found.digest.hex(), ", not ", digest.hex()));
  }

  // The content type is not looked at: Ollama's registry calls a manifest plain text.
  Result<Page> page(const std::string& url) {
    return ask(*http_, {.url = url, .headers = {kAccept}, .credentials = credentials_}, kLongestManifest, never_);
  }

  Result<Manifest> taken(Page page) {
    const int status = page.answer.status;
    if (status == 404) return failure(Code::not_found, str("no such model or tag: ", name_, refusal(page)));
    if (status == 401 || status == 403) return failure(Code::unsupported, denied(page));
    if (status != 200) return failure(Code::unsupported, name_ + refusal(page));
    Manifest found{std::move(page.body), {}};
    found.digest = sha256(found.body);
    const auto said = page.answer.header("docker-content-digest").value_or("");
    if (said.starts_with("sha256:") && digest_of_text(said) != found.digest)
      return failure(Code::mismatch, str(name_, ": the manifest's SHA-256 is ", found.digest.hex(),
                                         ", the registry says ", quoted(said)));
    return found;
  }

  std::string denied(const Page& page) {
    const std::string tried = credentials_->tried();
    return str("access denied to ", name_, refusal(page), " (asked ", tried.empty() ? "without a name" : tried, ")");
  }

  template <class T>
  Result<T> named(Result<T> result) const {
    return std::move(result).map_error([&](const Error& error) {
      return Error{error.code, name_ + ": " + error.message};
    });
  }

  const std::string name_;
  const std::string url_;
  const HttpPtr http_;
  const std::shared_ptr<RegistryCredentials> credentials_;
  const std::atomic<bool> never_ = false;
};

// What is remembered: the digest on a line of its own, then the manifest.
std::string remembered(const Manifest& manifest) { return manifest.digest.hex() + "\n" + manifest.body; }

std::optional<Manifest> recalled(BlobStore& store, const std::string& key) {
  const auto text = store.recall(key);
  if (!text) return std::nullopt;
  const size_t line = std::min(text->find('\n'), text->size());
  Manifest found{text->substr(std::min(line + 1, text->size())), {}};
  found.digest = sha256(found.body);
  if (found.digest.hex() != std::string_view(*text).substr(0, line)) return std::nullopt;
  return found;
}

std::string existing(const char* variable, const std::string& below) {
  const char* directory = std::getenv(variable);
  if (directory == nullptr || *directory == '\0') return {};
  const std::string path = directory + below;
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 ? path : std::string();
}

}  // namespace

Keys Keys::of_user() {
  const char* docker = std::getenv("DOCKER_CONFIG");
  const bool is_set = docker != nullptr && *docker != '\0';
  return {existing("HOME", "/.ollama/id_ed25519"),
          is_set ? existing("DOCKER_CONFIG", "/config.json") : existing("HOME", "/.docker/config.json")};
}

Result<Resolved> resolve(const Reference& asked, const BlobStorePtr& store, const HttpPtr& http, const Keys& keys) {
  const Reference reference = TRY(canonical(asked));
  const std::string registry = str(reference.scheme, "://", reference.host);
  const std::string url = str(registry, "/v2/", reference.repository);
  const std::string from = str(url, "/manifests/", reference.tag);
  const std::string key = "manifest " + from;
  const auto resolved = [&](Manifest manifest, std::shared_ptr<Credentials> credentials) {
    auto blobs = std::make_shared<RegistryBlobs>(store, url, std::move(credentials));
    return Resolved{std::move(manifest.body), manifest.digest, from, std::move(blobs)};
  };
  if (http == nullptr) {
    auto manifest = recalled(*store, key);
    if (!manifest) return failure(Code::network, str("offline, and no manifest of ", name_of(reference), " was kept"));
    return resolved(std::move(*manifest), nullptr);
  }
  if (reference.scheme == "http" && !http->options().insecure && !is_loopback_host(reference.host))
    return failure(Code::unsupported, str(registry, ": http:// needs --insecure"));
  Repository repository(reference, url, http, keys);
  auto manifest = repository.manifest(reference.tag);
  if (!manifest) {
    Error error = manifest.error();
    if (error.code == Code::network && recalled(*store, key)) error.message += "; --offline shows what was kept";
    return tl::unexpected(std::move(error));
  }
  store->remember(key, remembered(*manifest));
  return resolved(std::move(*manifest), repository.credentials());
}

}  // namespace weightfs
