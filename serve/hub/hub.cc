#include "serve/hub/hub.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <utility>

#include "base/text.h"
#include "serve/api/query.h"
#include "serve/hub/listing.h"
#include "serve/hub/names.h"
#include "serve/mirror/for_client.h"

namespace weightfs::hub {
namespace {

using httpd::Accepted;
using httpd::Refusal;
using httpd::Request;
using httpd::Response;
using httpd::Target;

constexpr size_t kMaxBody = 64 << 10;
constexpr const char* kRetryAfter = "10";  // seconds
constexpr size_t kPage = 1'000;            // entries, as on the Hub
constexpr std::chrono::seconds kWaitForDigests{60};

// Whether a name is that of a complete model, which is found in a repository that has no such file. A commit of the Hub
// has its own files only, and clients that look for one file first read the index of shards otherwise.
bool is_complete_view(const Repository& repository, const std::string& path) {
  if (repository.shows == Shows::hub || repository.shows == Shows::origin) return false;
  if (path == "model.gguf") return true;
  const auto is_index = [](const RepositoryFile& file) { return file.path.ends_with(".safetensors.index.json"); };
  return path == "model.safetensors" && std::ranges::none_of(repository.files, is_index);
}

std::string joined(const std::vector<std::string>& segments, size_t first) {
  std::string path;
  for (size_t i = first; i < segments.size(); ++i) path += (path.empty() ? "" : "/") + segments[i];
  return path;
}

bool is_main_branch(std::string_view revision) {
  return revision == "main" || revision == "HEAD" || revision == "refs/heads/main";
}

bool is_set(const Target& target, std::string_view name) {
  const std::string value = httpd::parameter(target.query, name).value_or("");
  return value == "true" || value == "True" || value == "1";
}

// It reads only the first page of a list (common/hf-cache.cpp).
bool reads_one_page(const Request& request) {
  const std::string* const agent = request.field("user-agent");
  return agent != nullptr && agent->starts_with("llama-cpp");
}

std::string file_name_of(const std::string& path) { return path.substr(path.rfind('/') + 1); }

// `file` is null for a view.
httpd::FileFields fields_of(const Repository& repository, const RepositoryFile* file) {
  httpd::FileFields fields;
  fields.fields.push_back({"X-Repo-Commit", repository.commit});
  if (file != nullptr && file->git_id) fields.etag = fmt::format("\"{}\"", file->git_id->hex());
  if (file != nullptr && file->sha256) {
    fields.etag = fmt::format("\"{}\"", file->sha256->hex());
    fields.fields.push_back({"X-Linked-Etag", fields.etag});
    fields.fields.push_back({"X-Linked-Size", std::to_string(file->size)});
    fields.digest = file->sha256;
  }
  return fields;
}

Response missing_entry(const Repository& repository, const std::string& path) {
  Response response =
      refusal(404, "EntryNotFound", fmt::format("{} does not exist in {}", printable(path), repository.id));
  // So that huggingface_hub remembers that this commit lacks the file.
  response.add("X-Repo-Commit", repository.commit);
  return response;
}

}  // namespace

// A request for a repository.
struct Hub::Call {
  const Request& request;
  const Target& target;
  const std::function<bool()>& has_left;  // null: not known
  RepositoryPtr repository = nullptr;
  std::shared_ptr<const void> in_use = nullptr;  // as FoundModel
  std::string path = {};                         // behind the revision
};

// What follows the id of a repository in a path.
struct Hub::Route {
  enum class At { api, root };  // below /api/models/, or at the top

  const char* name;  // empty: nothing follows
  At at;
  bool has_revision;
  bool has_path;
  const char* method;  // besides HEAD, which is as GET
  Accepted<Response> (Hub::*answer)(const Call&);
};

bool Hub::is_method_of(const Route& route, const Request& request) {
  return request.method == route.method || (request.is_head() && std::string_view(route.method) == "GET");
}

Response Hub::wrong_method(const Route& route) {
  return refusal(404, "", fmt::format("{} is for {} only", route.name, route.method));
}

const Hub::Route* Hub::find(const Target& target) {
  using At = Route::At;
  static constexpr std::array kRoutes = {
      Route{"", At::api, false, false, "GET", &Hub::describe},
      Route{"revision", At::api, true, false, "GET", &Hub::describe},
      Route{"refs", At::api, false, false, "GET", &Hub::list_references},
      Route{"tree", At::api, true, true, "GET", &Hub::list_tree},
      Route{"paths-info", At::api, true, false, "POST", &Hub::list_paths},
      Route{"resolve", At::root, true, true, "GET", &Hub::send},
      Route{"raw", At::root, true, true, "GET", &Hub::send_raw},
  };
  const auto& path = target.segments;
  const bool is_api = path.size() >= 2 && path[0] == "api" && path[1] == "models";
  const size_t name = is_api ? 4 : 2;  // its place in the path
  if (path.size() < name) return nullptr;
  const auto matches = [&](const Route& route) {
    const std::string_view sent = path.size() > name ? std::string_view(path[name]) : "";
    if (sent != route.name || (route.at == At::api) != is_api) return false;
    const size_t least = name + (sent.empty() ? 0U : 1U) + (route.has_revision ? 1U : 0U);
    return path.size() == least || (path.size() > least && route.has_path);
  };
  const auto found = std::ranges::find_if(kRoutes, matches);
  return found == kRoutes.end() ? nullptr : &*found;
}

Hub::Hub(Forest& forest, std::string scheme, SendFile send_file, Mirrored mirrored, digests::FileDigests* digests)
    : forest_(forest),
      scheme_(std::move(scheme)),
      send_file_(std::move(send_file)),
      mirrored_(std::move(mirrored)),
      digests_(digests),
      repositories_(forest) {}

size_t Hub::max_body(const Target& target) {
  const Route* const route = find(target);
  return route != nullptr && std::string_view(route->method) == "POST" ? kMaxBody : 0;
}

bool Hub::is_in_tree(const std::string& name) { return forest_.lookup(Forest::kRoot, name).has_value(); }

std::optional<Accepted<Response>> Hub::answer(const Request& request, const Target& target,
                                              const std::function<bool()>& has_left) {
  const auto& path = target.segments;
  if (path.empty()) return std::nullopt;
  const bool is_api = path[0] == "api" && path.size() >= 2;
  const Route* const route = find(target);
  if (route == nullptr && (!is_api || is_in_tree("api"))) return std::nullopt;
  if (route == nullptr && path[1] == "whoami-v2") return refusal(401, "", "Invalid username or password.");
  if (route == nullptr) return refusal(404, "", "the API has no such endpoint");
  bool is_of_tree = false;
  auto answered = answer(*route, {request, target, has_left}, is_in_tree(path[0]), is_of_tree);
  if (is_of_tree) return std::nullopt;
  return answered;
}

Accepted<Response> Hub::answer(const Route& route, Call call, bool may_be_of_tree, bool& is_of_tree) {
  const auto& path = call.target.segments;
  const size_t id = route.at == Route::At::api ? 2 : 0;  // its place in the path
  const auto found = repositories_.find(path[id], path[id + 1]);
  is_of_tree = may_be_of_tree && found && found->repository == nullptr;
  if (is_of_tree) return Response{};
  ACCEPT_VOID(api::accepted(found));
  const RepositoryPtr repository = found->repository;
  if (repository == nullptr && mirrored_.mirror != nullptr) return answer_mirrored(route, std::move(call));
  if (repository == nullptr)
    return refusal(404, "RepoNotFound",
                   fmt::format("{}/{}: no such repository; the models of this server are {}/NAME", printable(path[id]),
                               printable(path[id + 1]), kLocal));
  if (!is_method_of(route, call.request)) return wrong_method(route);
  call.repository = repository;
  call.in_use = found->in_use;
  if (route.has_revision) {
    const std::string& revision = path[id + 3];
    const bool is_own = is_main_branch(revision) || revision == repository->commit;
    if (!is_own && is_mirrored(*repository)) return answer_mirrored(route, std::move(call));
    if (!is_own) return refusal(404, "RevisionNotFound", fmt::format("Invalid rev id: {}", printable(revision)));
    call.path = joined(path, id + 4);
  }
  return (this->*route.answer)(call);
}

// A source has one revision of its repository.
bool Hub::is_mirrored(const Repository& repository) const {
  return repository.shows == Shows::hub && mirrored_.mirror != nullptr && mirrored_.mirror->is_permitted(repository.id);
}

Accepted<Response> Hub::answer_mirrored(const Route& route, Call call) {
  if (!is_method_of(route, call.request)) return wrong_method(route);
  const auto& path = call.target.segments;
  const size_t id = route.at == Route::At::api ? 2 : 0;
  const bool is_main = !route.has_revision || is_main_branch(path[id + 3]);
  const auto found = mirrored_.mirror->find(path[id], path[id + 1], is_main ? "main" : path[id + 3]);
  if (!found) return refusal(found.error().status, found.error().code, found.error().message);
  call.repository = *found;
  if (route.has_revision) call.path = joined(path, id + 4);
  return (this->*route.answer)(call);
}

Accepted<Response> Hub::json(const Call& call, std::string text) {
  const api::ContentPtr content = ACCEPT(results_.share({.bytes = std::move(text)}));
  Response response;
  response.add("Content-Type", "application/json; charset=utf-8").add("Cache-Control", "no-cache");
  response.add("X-Content-Type-Options", "nosniff").add("Cross-Origin-Resource-Policy", "same-origin");
  response.add("X-Repo-Commit", call.repository->commit);
  response.body.emplace_back(httpd::SharedText{{content, &content->bytes}});
  return response;
}

Accepted<Response> Hub::describe(const Call& call) {
  const std::scoped_lock lock(building_);
  return json(call, hub::describe(*call.repository, is_set(call.target, "blobs")));
}

Accepted<Response> Hub::list_references(const Call& call) {
  return json(call, fmt::format(R"({{"branches":[{{"name":"main","ref":"refs/heads/main","targetCommit":"{}"}}],)"
                                R"("converts":[],"tags":[]}})",
                                call.repository->commit));
}

// The URL of this request for the entries from `cursor` on.
std::string Hub::next_page(const Call& call, size_t cursor) const {
  const std::string* const host = call.request.field("host");
  const std::string* const proxy = call.request.field("x-forwarded-proto");
  const std::string scheme = proxy != nullptr && *proxy == "https" ? *proxy : scheme_;
  std::string url = host == nullptr ? "" : fmt::format("{}://{}", scheme, *host);
  url += fmt::format("{}?cursor={}", call.target.path, cursor);
  for (const char* const name : {"recursive", "expand", "limit"})
    if (const auto value = httpd::parameter(call.target.query, name))
      url += fmt::format("&{}={}", name, httpd::url_segment(*value));
  return url;
}

Accepted<Response> Hub::list_tree(const Call& call) {
  const std::scoped_lock lock(building_);
  const Depth depth = is_set(call.target, "recursive") ? Depth::all : Depth::one;
  const auto entries = entries_below(*call.repository, call.path, depth);
  if (entries.empty() && !call.path.empty()) return missing_entry(*call.repository, call.path);
  const api::Query query(call.target.query);
  const size_t first = std::min(entries.size(), static_cast<size_t>(ACCEPT(query.number("cursor", 0, UINT64_MAX))));
  const size_t limit = static_cast<size_t>(ACCEPT(query.number("limit", kPage, kPage)));
  const size_t most = reads_one_page(call.request) ? entries.size() : std::max<size_t>(limit, 1);
  const size_t end = first + std::min(entries.size() - first, most);
  std::string text = "[";
  for (size_t i = first; i < end; ++i) {
    if (i > first) text += ",";
    text += to_json_line(value_of(*call.repository, entries[i], is_set(call.target, "expand")));
  }
  Response response = ACCEPT(json(call, text + "]"));
  response.add("Vary", "User-Agent");
  if (end < entries.size()) response.add("Link", fmt::format("<{}>; rel=\"next\"", next_page(call, end)));
  return response;
}

// Clients that keep files by their digest ask for it here, before they download one.
Accepted<RepositoryFile> Hub::with_digest(const Call& call, const RepositoryFile& file) {
  if (digests_ == nullptr || file.place.empty() || file.sha256 || file.git_id) return file;
  const auto ino = forest_.resolve(file.place, Forest::FinalLink::followed);
  const Repository& repository = *call.repository;
  // The digest of a path before this one may have taken a minute.
  const bool is_own = repository.shows != Shows::views;
  if (ino && is_own && forest_.model_of(*ino) != repository.model.lock())
    return httpd::refused(503, fmt::format("{}: was replaced", repository.id));
  const auto source = ino ? forest_.open(*ino) : tl::unexpected(ino.error());
  if (!source || !is_local(**source)) return file;
  const auto until = std::chrono::steady_clock::now() + kWaitForDigests;
  const auto digest = digests_->get(*source, file.path, {until, call.has_left});
  if (!digest && digest.error().code == Code::resource) return httpd::refused(503, digest.error().message);
  if (!digest) return tl::unexpected(api::refusal_of(digest.error()));
  RepositoryFile known = file;
  known.sha256 = *digest;
  return known;
}

Accepted<Response> Hub::list_paths(const Call& call) {
  if (call.request.has_body)
    return refusal(413, "", fmt::format("a body with Content-Length is needed, of at most {} bytes", kMaxBody));
  const WantedPaths wanted = ACCEPT(wanted_paths(call.request));
  std::string text = "[";
  for (const std::string& path : wanted.paths) {
    Entry entry = entry_at(*call.repository, path);
    if (entry.path.empty()) continue;
    RepositoryFile file;
    if (wanted.is_expanded && entry.file != nullptr) {
      file = ACCEPT(with_digest(call, *entry.file));
      entry.file = &file;
    }
    if (text.size() > 1) text += ",";
    text += to_json_line(value_of(*call.repository, entry, wanted.is_expanded));
  }
  return json(call, text + "]");
}

Accepted<Response> Hub::send(const Call& call) {
  const Repository& repository = *call.repository;
  const RepositoryFile* const file = repository.find(call.path);
  if (file != nullptr && repository.shows == Shows::origin) return send_mirrored(call, *file);
  const bool may_be_view = file == nullptr && is_complete_view(repository, call.path);
  if (file == nullptr && !may_be_view) return missing_entry(repository, call.path);
  const std::string place = file != nullptr ? file->place : fmt::format("{}{}/{}", repository.place, kViews, call.path);
  const auto ino = forest_.resolve(place, Forest::FinalLink::followed);
  if (!ino && ino.error().code == Code::not_found && may_be_view) return missing_entry(repository, call.path);
  if (!ino) return tl::unexpected(api::refusal_of(ino.error()));
  const bool is_own = file != nullptr && repository.shows != Shows::views;
  if (is_own && forest_.model_of(*ino) != repository.model.lock())
    return httpd::refused(503, fmt::format("{}: was replaced", repository.id));
  return send_file_(call.request, *ino, file_name_of(call.path), fields_of(repository, file));
}

Accepted<Response> Hub::send_mirrored(const Call& call, const RepositoryFile& file) {
  if (!file.sha256 && !file.git_id)
    return refusal(502, "", fmt::format("{}: the origin states no digest of it", printable(file.path)));
  SourcePtr bytes = mirror::for_client(mirrored_.mirror->open(*call.repository, file), call.has_left);
  Response response =
      mirrored_.send(call.request, std::move(bytes), file_name_of(call.path), fields_of(*call.repository, &file));
  // Clients repeat their requests for 503, not for 502.
  const bool is_down = std::ranges::any_of(response.fields, [](const httpd::Field& field) {
    return field.name == "Weightfs-Error" && field.value == "unreachable";
  });
  if (response.status == 504) response.add("Retry-After", kRetryAfter);
  if (is_down) return httpd::refused(503, fmt::format("{}: the origin cannot be reached", call.repository->id));
  return response;
}

// As Git has the file.
Accepted<Response> Hub::send_raw(const Call& call) {
  const RepositoryFile* const file = call.repository->find(call.path);
  if (file == nullptr || !file->sha256) return send(call);
  const std::string pointer = lfs_pointer(*file);
  Response response;
  response.add("ETag", fmt::format("\"{}\"", git_blob_id(pointer).hex())).add("Cache-Control", "no-cache");
  response.add("X-Repo-Commit", call.repository->commit).add("Content-Type", "text/plain; charset=utf-8");
  response.add("X-Content-Type-Options", "nosniff").add("Cross-Origin-Resource-Policy", "same-origin");
  response.body.emplace_back(pointer);
  return response;
}

Response refusal(int status, const std::string& code, const std::string& message) {
  Response response{status};
  if (!code.empty()) response.add("X-Error-Code", code);
  if (status == 503 || status == 504) response.add("Retry-After", kRetryAfter);
  response.add("X-Error-Message", message).add("Content-Type", "application/json; charset=utf-8");
  response.add("Cache-Control", "no-store").add("X-Content-Type-Options", "nosniff");
  response.add("Cross-Origin-Resource-Policy", "same-origin");
  std::string text = "{\"error\":";
  append_json_string(text, to_utf8(message));
  response.body.emplace_back(text + "}");
  return response;
}

}  // namespace weightfs::hub
