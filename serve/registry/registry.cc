#include "serve/registry/registry.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <set>

#include "base/cancel.h"
#include "base/text.h"
#include "fs/adapters/error_numbers.h"
#include "fs/http/file_body.h"
#include "fs/http/transfer.h"
#include "report/text/map_of.h"
#include "serve/mirror/for_client.h"
#include "serve/registry/published_manifest.h"

namespace weightfs::distribution {

using httpd::Response;

// A request for a repository.
struct Registry::Call {
  const httpd::Request& request;
  const httpd::Target& target;
  const std::function<bool()>& has_left;

  std::string accept() const { return request.list("accept").value_or(""); }

  bool is_of_ollama() const {
    const std::string* const agent = request.field("user-agent");
    if (agent != nullptr && agent->starts_with("ollama/")) return true;
    const std::string types = accept();
    return types.find(kDockerManifest) != types.npos && types.find(kOciManifest) == types.npos &&
           types.find("*/*") == types.npos;
  }

  // Others give up and ask again; Ollama does not.
  digests::Patience patience() const {
    constexpr std::chrono::seconds kUsual{25}, kOfOllama{600};
    return {std::chrono::steady_clock::now() + (is_of_ollama() ? kOfOllama : kUsual), has_left};
  }
};

struct Registry::ManifestBytes {
  std::string text;
  Digest digest;
};

namespace {

using Path = std::vector<std::string>;

constexpr size_t kMaxReferrers = 1'000;  // manifests that are looked at

bool is_registry(const Path& path) { return !path.empty() && path[0] == "v2"; }

// Nothing of a model may run in the origin of this server.
void protect(Response& response) {
  response.add("X-Content-Type-Options", "nosniff").add("Content-Security-Policy", "sandbox; default-src 'none'");
  response.add("Cross-Origin-Resource-Policy", "same-origin");
}

// How long caches keep what a digest names. A shared one must not give it to clients without the token (RFC 9111, 3.5).
const char* kept_by(Readers readers) {
  return readers == Readers::all ? "public, max-age=31536000, immutable" : "private, max-age=31536000, immutable";
}

Response json_response(int status, const Value& value, std::string type = "application/json") {
  Response response{status};
  response.add("Content-Type", std::move(type)).add("Docker-Distribution-Api-Version", "registry/2.0");
  protect(response);
  response.body.emplace_back(to_json_line(value));
  return response;
}

Response error_response(int status, const char* code, const std::string& message) {
  List errors;
  errors.emplace_back(map_of({{"code", code}, {"message", to_utf8(message)}}));
  Response response = json_response(status, map_of({{"errors", std::move(errors)}}));
  response.add("Cache-Control", "no-store");
  if (status == 429 || status == 503) response.add("Retry-After", "10");
  if (status == 401) response.add("WWW-Authenticate", "Basic realm=\"weightfs\"");
  if (status == 405) response.add("Allow", "GET, HEAD, OPTIONS");
  return response;
}

// What is not found has the code `unknown`.
Response failed(const Error& error, const char* unknown) {
  const bool is_unknown = error.code == Code::not_found || error.code == Code::unsupported;
  if (is_unknown) return error_response(404, unknown, error.message);
  // Clients repeat a request after 429 (containers/image, containerd), and not after 503.
  const int status = may_pass(error) && !is_timeout(error) ? 429 : http_status_of(error);
  const char* const code = status == 429 || status == 503 ? "TOOMANYREQUESTS" : status == 403 ? "DENIED" : "UNKNOWN";
  return error_response(status, code, error.message);
}

// The response for what a mirror refuses.
Response refusal_response(const mirror::Refusal& refusal) {
  const std::string& code = refusal.code;
  return error_response(refusal.status == 503 ? 429 : refusal.status, code.empty() ? "TOOMANYREQUESTS" : code.c_str(),
                        refusal.message);
}

// Its components may be separated by an encoded slash.
std::string name_in(const Path& path) {
  std::string name;
  for (size_t i = 1; i + 2 < path.size(); ++i) name += (i == 1 ? "" : "/") + path[i];
  return name;
}

}  // namespace

Registry::Registry(Forest& forest, const std::string& source, digests::FileDigests& digests, Readers readers,
                   std::shared_ptr<Mirror> mirror)
    : forest_(forest),
      repositories_(forest, source),
      digests_(digests),
      readers_(readers),
      mirror_(std::move(mirror)) {}

std::optional<Response> Registry::refuse(const httpd::Refusal& refusal, const httpd::Request& request) {
  const std::string_view target = request.target;
  if (!target.starts_with("/v2/") && target != "/v2") return std::nullopt;
  const int status = refusal.status;
  const char* const code = status == 401   ? "UNAUTHORIZED"
                           : status == 403 ? "DENIED"
                           : status == 404 ? "NAME_UNKNOWN"
                           : status == 503 ? "TOOMANYREQUESTS"
                                           : "UNSUPPORTED";
  return error_response(status, code, refusal.message);
}

std::optional<Response> Registry::answer(const httpd::Request& request, const httpd::Target& target,
                                         const std::function<bool()>& has_left) {
  if (!is_registry(target.segments) || forest_.lookup(Forest::kRoot, "v2")) return std::nullopt;
  return answer({request, target, has_left});
}

Response Registry::answer(const Call& call) {
  const Path& path = call.target.segments;
  if (path.size() == 1) return json_response(200, Map());
  // The name may have any number of components, and what is asked of it two.
  if (path.size() < 4) return error_response(404, "NAME_UNKNOWN", "no such endpoint");
  const std::string& what = path[path.size() - 2];
  const std::string& which = path.back();
  const bool is_known =
      what == "manifests" || what == "blobs" || what == "referrers" || (what == "tags" && which == "list");
  if (!is_known) return error_response(404, "UNSUPPORTED", "no such endpoint; this registry is read-only");
  const auto repository = repositories_.find(Path(path.begin() + 1, path.end() - 2));
  if (!repository && repository.error().code == Code::not_found)
    if (auto mirrored = answer_mirrored(call, name_in(path))) return std::move(*mirrored);
  if (!repository) return failed(repository.error(), "NAME_UNKNOWN");
  if (what == "manifests") return manifest(call, *repository, which);
  if (what == "blobs") return blob(call, *repository, which);
  return what == "tags" ? tags(call, *repository) : referrers(call, *repository, which);
}

// Nothing if the name may not be requested.
std::optional<Response> Registry::answer_mirrored(const Call& call, const std::string& name) {
  const Path& path = call.target.segments;
  const std::string& what = path[path.size() - 2];
  const std::string& which = path.back();
  const std::string name_space = httpd::parameter(call.target.query, "ns").value_or("");
  if (mirror_ == nullptr || !mirror_->is_permitted(name, name_space)) return std::nullopt;
  const auto digest = parse_digest(which);
  if (what == "blobs" && !digest) return error_response(400, "DIGEST_INVALID", "not a SHA-256 digest");
  if (what == "blobs") {
    auto bytes = mirror_->blob(name, *digest);
    if (!bytes) return refusal_response(bytes.error());
    return send_blob(call, *digest, mirror::for_client(std::move(*bytes), call.has_left), Forest::kRoot);
  }
  if (what != "manifests") return error_response(404, "UNSUPPORTED", "a mirror has manifests and blobs only");
  if (!digest && !is_tag(which)) return error_response(404, "MANIFEST_UNKNOWN", "not a tag, and not a SHA-256 digest");
  auto found = mirror_->manifest(name, digest ? "sha256:" + digest->hex() : which);
  if (!found) return refusal_response(found.error());
  return send_manifest({std::move(found->text), found->digest}, digest.has_value());
}

Result<std::vector<TaggedModel>> Registry::models_in(const Repository& repository) {
  if (repository.model == nullptr) return repositories_.tagged(repository);
  return std::vector<TaggedModel>{{"latest", repository.model}};
}

// The manifest of a repository with a model. The digests of its files are computed for a tag, and otherwise must be
// known: anybody can ask for a digest.
Result<MadePtr> Registry::made(const Call& call, const Repository& one, Dialect dialect, Digests digests) {
  const auto is_it = [&](const Kept& each) { return each.model.lock() == one.model && each.dialect == dialect; };
  {
    const std::scoped_lock lock(mutex_);
    std::erase_if(kept_, [](const Kept& each) { return each.model.expired(); });
    const auto known = std::ranges::find_if(kept_, is_it);
    if (known != kept_.end()) {
      kept_.splice(kept_.begin(), kept_, known);
      return kept_.front().made;
    }
  }
  const digests::Patience patience = call.patience();
  // A client that has only closed its sending end gets a brief answer.
  const auto may_end = std::chrono::steady_clock::now() + kCancelCheck;
  const CancelScope scope([&patience, may_end] {
    const auto now = std::chrono::steady_clock::now();
    return now >= patience.until || (now >= may_end && patience.has_left && patience.has_left());
  });
  MadePtr made = TRY(make_manifest(*one.model, component_of(without_ending(one.name)), dialect, digests_,
                                   digests == Digests::computed ? &patience : nullptr));
  const std::scoped_lock lock(mutex_);
  if (std::ranges::none_of(kept_, is_it)) kept_.push_front({one.model, dialect, made});
  if (kept_.size() > kMaxKept) kept_.pop_back();
  return made;
}

Result<Registry::ManifestBytes> Registry::manifest_of_tag(const Call& call, const Repository& repository,
                                                          const std::string& tag) {
  const auto unknown = [&] { return failure(Code::not_found, fmt::format("{}: no such tag", printable(tag))); };
  Repository one = repository;
  if (one.model == nullptr) one.model = TRY(repositories_.tagged(repository, tag));
  if (one.model == nullptr) return unknown();
  const Published* const published = one.model->published.get();
  const bool is_default = tag == "latest" || tag == repositories_.source().tag || repository.model == nullptr;
  std::optional<Digest> digest;
  if (published != nullptr) {
    for (const PublishedManifest& each : published->manifests)
      if (!digest && has_tag(each, tag)) digest = each.digest;
    if (!digest && is_default && published->manifests.size() == 1) digest = published->manifests.front().digest;
    if (!digest) return unknown();
    std::string text = TRY(text_of_manifest(*one.model, *digest));
    const bool is_understood = !call.is_of_ollama() || is_for_ollama(text);
    if (is_understood || !is_possible(*one.model, Dialect::ollama)) return ManifestBytes{std::move(text), *digest};
  } else if (!is_default) {
    return unknown();
  }
  const Dialect dialect = call.is_of_ollama() ? Dialect::ollama : Dialect::modelpack;
  const MadePtr made = TRY(this->made(call, one, dialect, Digests::computed));
  return ManifestBytes{made->text, made->digest};
}

// What a model publishes, or the manifests that are made of it. Computes no digest: any name may be asked for.
Result<SourcePtr> Registry::blob_of_model(const Call& call, const Repository& one, const Digest& digest) {
  const bool is_published = one.model->published != nullptr;
  if (is_published) {
    auto found = open_published(*one.model, digest);
    if (found || found.error().code != Code::not_found) return found;
  }
  Result<SourcePtr> result = failure(Code::not_found, "no such blob");
  for (const Dialect dialect : {Dialect::modelpack, Dialect::ollama}) {
    const bool is_not_made = is_published && (dialect == Dialect::modelpack || publishes_for_ollama(*one.model));
    if (is_not_made || !is_possible(*one.model, dialect)) continue;
    const auto made = this->made(call, one, dialect, Digests::known);
    auto found = made ? open_made(*one.model, **made, digest) : tl::unexpected(made.error());
    if (found || (found.error().code != Code::not_found && found.error().code != Code::unsupported)) return found;
    if (!made) result = std::move(found);
  }
  return result ? result : failure(Code::not_found, result.error().message);
}

// In a directory of tags, the model that had the blob before is looked at first.
Result<SourcePtr> Registry::find_blob(const Call& call, const Repository& repository, const Digest& digest) {
  if (repository.model != nullptr) return blob_of_model(call, repository, digest);
  const std::string place = fmt::format("{} {}", repository.ino, digest.hex());
  Result<SourcePtr> result = failure(Code::not_found, "no such blob");
  Repository one = repository;
  const auto is_found_in = [&](const TaggedModel& each) {
    one.model = each.model;
    result = blob_of_model(call, one, digest);
    if (!result) return result.error().code != Code::not_found;
    const std::scoped_lock lock(mutex_);
    if (tag_of_blob_.size() >= kMaxBlobs) tag_of_blob_.clear();
    tag_of_blob_[place] = each.tag;
    return true;
  };
  std::string tag;
  {
    const std::scoped_lock lock(mutex_);
    if (const auto known = tag_of_blob_.find(place); known != tag_of_blob_.end()) tag = known->second;
  }
  const ModelPtr likely = tag.empty() ? nullptr : TRY(repositories_.tagged(repository, tag));
  if (likely != nullptr && is_found_in({tag, likely})) return result;
  TRY_VOID(repositories_.find_tagged(repository, is_found_in));
  return result;
}

Result<Registry::ManifestBytes> Registry::manifest_of_digest(const Call& call, const Repository& repository,
                                                             const Digest& digest) {
  const SourcePtr bytes = TRY(find_blob(call, repository, digest));
  if (bytes->size() > kMaxManifest) return failure(Code::not_found, "not a manifest");
  return ManifestBytes{TRY(read_text(*bytes, 0, bytes->size())), digest};
}

Response Registry::manifest(const Call& call, const Repository& repository, const std::string& reference) {
  const auto digest = parse_digest(reference);
  if (!digest && !is_tag(reference))
    return error_response(404, "MANIFEST_UNKNOWN", "not a tag, and not a SHA-256 digest");
  auto found = digest ? manifest_of_digest(call, repository, *digest) : manifest_of_tag(call, repository, reference);
  if (!found) return failed(found.error(), "MANIFEST_UNKNOWN");
  Response response = send_manifest(std::move(*found), digest.has_value());
  if (!digest && response.status == 200) response.add("Vary", "Accept, User-Agent");
  return response;
}

Response Registry::send_manifest(ManifestBytes found, bool is_final) {
  const auto type = type_of(found.text);
  if (!type) return error_response(404, "MANIFEST_UNKNOWN", type.error().message);
  Response response;
  const std::string name = "sha256:" + found.digest.hex();
  response.add("Content-Type", *type).add("Docker-Content-Digest", name).add("ETag", fmt::format("\"{}\"", name));
  response.add("Cache-Control", is_final ? kept_by(readers_) : "no-cache");
  response.add("Docker-Distribution-Api-Version", "registry/2.0");
  protect(response);
  response.body.emplace_back(std::move(found.text));
  return response;
}

Response Registry::blob(const Call& call, const Repository& repository, const std::string& text) {
  const auto digest = parse_digest(text);
  if (!digest && is_other_digest(text)) return error_response(404, "BLOB_UNKNOWN", "blobs have SHA-256 digests");
  if (!digest) return error_response(400, "DIGEST_INVALID", "not a SHA-256 digest");
  const auto bytes = find_blob(call, repository, *digest);
  if (!bytes) return failed(bytes.error(), "BLOB_UNKNOWN");
  return send_blob(call, *digest, *bytes, repository.ino);
}

Response Registry::send_blob(const Call& call, const Digest& digest, const SourcePtr& bytes, Ino ino) {
  const std::string name = "sha256:" + digest.hex();
  const httpd::Validators validators{fmt::format("\"{}\"", name)};
  const httpd::Verdict verdict = evaluate(call.request, validators, 0);
  Response response;
  response.add("Docker-Content-Digest", name).add("ETag", validators.etag).add("Accept-Ranges", "bytes");
  response.add("Cache-Control", kept_by(readers_));
  protect(response);
  if (verdict == httpd::Verdict::not_modified || verdict == httpd::Verdict::failed) {
    response.status = verdict == httpd::Verdict::failed ? 412 : 304;
    return response;
  }
  const auto open = std::make_shared<OpenFile>(ino, bytes, nullptr);
  add_file(response, call.request, open, verdict, "application/octet-stream");
  // Ollama requires it, and requests the ranges from there (ollama#7244).
  if (response.status == 200) response.add("Location", call.target.path);
  if (call.request.is_head()) return response;
  if (const auto read = httpd::read_first(response); !read) return failed(read.error(), "BLOB_UNKNOWN");
  return response;
}

Result<std::vector<std::string>> Registry::tags_of(const Repository& repository) {
  std::set<std::string> tags;
  if (repository.model == nullptr) {
    for (const TaggedModel& each : TRY(repositories_.tagged(repository))) tags.insert(each.tag);
    if (tags.empty()) return failure(Code::not_found, "the directory has no published models");
    return std::vector<std::string>(tags.begin(), tags.end());
  }
  const Published* const published = repository.model->published.get();
  if (published != nullptr)
    for (const PublishedManifest& manifest : published->manifests)
      for (const std::string& each : manifest.tags)
        if (const std::string tag = tag_in(each); !tag.empty()) tags.insert(tag);
  if (published == nullptr || published->manifests.size() == 1) {
    tags.insert("latest");
    if (const std::string& own = repositories_.source().tag; !own.empty() && repository.ino == Forest::kRoot)
      tags.insert(own);
  }
  return std::vector<std::string>(tags.begin(), tags.end());
}

Response Registry::tags(const Call& call, const Repository& repository) {
  auto all = tags_of(repository);
  if (!all) return failed(all.error(), "NAME_UNKNOWN");
  const std::string name = name_in(call.target.segments);
  const std::string last = httpd::parameter(call.target.query, "last").value_or("");
  std::erase_if(*all, [&](const std::string& tag) { return !last.empty() && tag <= last; });
  std::string more;
  if (const auto n = httpd::parameter(call.target.query, "n")) {
    const auto most = parse_number<uint64_t>(*n);
    if (!most) return error_response(400, "UNSUPPORTED", "n is not a number");
    if (*most < all->size()) {
      all->resize(static_cast<size_t>(*most));
      if (!all->empty()) more = fmt::format("</v2/{}/tags/list?n={}&last={}>; rel=\"next\"", name, *most, all->back());
    }
  }
  List tags;
  for (const std::string& tag : *all) tags.emplace_back(tag);
  Response response = json_response(200, map_of({{"name", name}, {"tags", std::move(tags)}}));
  if (!more.empty()) response.add("Link", more);
  response.add("Cache-Control", "no-cache");
  return response;
}

// The manifests whose `subject` is the digest.
Response Registry::referrers(const Call& call, const Repository& repository, const std::string& text) {
  const auto digest = parse_digest(text);
  if (!digest && !is_other_digest(text)) return error_response(400, "DIGEST_INVALID", "not a digest");
  const std::string type = httpd::parameter(call.target.query, "artifactType").value_or("");
  const auto models = models_in(repository);
  if (!models) return failed(models.error(), "NAME_UNKNOWN");
  List found;
  size_t looked_at = 0;
  for (const TaggedModel& each : *models) {
    if (!digest || each.model->published == nullptr) continue;
    for (const PublishedManifest& manifest : each.model->published->manifests) {
      if (++looked_at > kMaxReferrers) break;
      auto entry = referrer_in(*each.model, manifest.digest, *digest);
      if (entry && (type.empty() || text_in(*entry, "artifactType") == type)) found.emplace_back(std::move(*entry));
    }
  }
  Response response = json_response(
      200, map_of({{"schemaVersion", 2}, {"mediaType", kOciIndex}, {"manifests", std::move(found)}}), kOciIndex);
  if (!type.empty()) response.add("OCI-Filters-Applied", "artifactType");
  response.add("Cache-Control", "no-cache");
  return response;
}

std::vector<std::string> Registry::invitations(const std::string& url) {
  const size_t scheme = url.find("://");
  const std::string name = repositories_.example();
  const std::string host = url.substr(scheme == url.npos ? 0 : scheme + 3);
  std::vector<std::string> lines;
  // Ollama sends no token.
  if (readers_ == Readers::all) lines.push_back(fmt::format("ollama pull {}library/{} --insecure", url, name));
  lines.push_back(fmt::format("skopeo copy --src-tls-verify=false {0}docker://{1}{2}:latest oci:{2}",
                              readers_ == Readers::all ? "" : "--src-creds x:TOKEN ", host, name));
  return lines;
}

}  // namespace weightfs::distribution
