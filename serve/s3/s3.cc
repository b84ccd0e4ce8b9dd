#include "serve/s3/s3.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <ctime>

#include "base/text.h"
#include "base/values/base64.h"
#include "base/values/http.h"
#include "fs/adapters/error_numbers.h"
#include "serve/api/query.h"
#include "serve/hub/names.h"
#include "serve/mirror/for_client.h"
#include "serve/s3/xml.h"

namespace weightfs::objects {

using httpd::Accepted;
using httpd::Refusal;
using httpd::Request;
using httpd::Response;
using httpd::Target;

// A request for a path below /.s3/.
struct ObjectStore::Call {
  const Request& request;
  const Target& target;
  const std::function<bool()>& has_left;
  std::string bucket;  // empty: the list of all
  std::string key;     // empty: the bucket

  std::optional<std::string> parameter(std::string_view name) const { return httpd::parameter(target.query, name); }
  bool has(std::string_view name) const { return parameter(name).has_value(); }
  std::string text(std::string_view name) const { return parameter(name).value_or(""); }
  Response error(int status, std::string_view code, std::string_view message) const {
    return error_response(status, code, message, target.path);
  }
  Response refuse(const mirror::Refusal& refusal) const {
    return error(refusal.status, refusal.code.empty() ? "SlowDown" : refusal.code, refusal.message);
  }
  Response invalid_range(uint64_t size) const {
    Response refused = error(416, "InvalidRange", "The requested range is not satisfiable");
    return refused.add("Content-Range", fmt::format("bytes */{}", size));
  }

  std::string file_name() const { return key.substr(key.rfind('/') + 1); }
  bool names_version() const {
    const std::string version = text("versionId");
    return !version.empty() && version != "null";
  }
  Response no_version() const { return error(404, "NoSuchVersion", "Objects have no versions"); }
};

namespace {

constexpr std::string_view kPrefix = ".s3";
constexpr const char* kRegion = "us-east-1";

// Other requests of the API for a bucket or an object, by their parameters.
constexpr std::array<std::string_view, 29> kOthers = {"accelerate",
                                                      "acl",
                                                      "analytics",
                                                      "attributes",
                                                      "cors",
                                                      "encryption",
                                                      "intelligent-tiering",
                                                      "inventory",
                                                      "legal-hold",
                                                      "lifecycle",
                                                      "logging",
                                                      "metrics",
                                                      "notification",
                                                      "object-lock",
                                                      "ownershipControls",
                                                      "partNumber",
                                                      "policy",
                                                      "policyStatus",
                                                      "publicAccessBlock",
                                                      "replication",
                                                      "requestPayment",
                                                      "restore",
                                                      "retention",
                                                      "select",
                                                      "tagging",
                                                      "torrent",
                                                      "uploadId",
                                                      "uploads",
                                                      "website"};

bool is_of_store(const Target& target) { return !target.segments.empty() && target.segments[0] == kPrefix; }

// Clients take a tag of 32 hex digits for the MD5 of the object, and compare it (rclone, s3cmd). One with a hyphen is
// that of an object which was uploaded in parts.
std::string object_tag(const std::string& tag) { return tag.substr(0, tag.size() - 1) + "-1\""; }

std::string tag_of(const hub::RepositoryFile& file, const httpd::FileEntity& entity) {
  return object_tag(file.sha256 ? fmt::format("\"{}\"", file.sha256->hex()) : entity.validators.etag);
}

httpd::FileFields object_fields(std::string tag) {
  Response ids;
  add_common_fields(ids);
  return {std::move(tag), {ids.fields.front()}};  // the site adds the others
}

std::time_t seconds_of(Time time) { return static_cast<std::time_t>(std::max<Time>(time, 0) / 1'000'000'000); }

// The key behind the bucket. Nothing if no object can have it: with an empty component, or one that is `.` or `..`.
std::optional<std::string> key_of(const Target& target) {
  const std::string_view path = target.path;
  for (const std::string_view part : {"//", "/./", "/../"})
    if (path.find(part) != path.npos) return std::nullopt;
  if (path.ends_with("/.") || path.ends_with("/..")) return std::nullopt;
  std::string key;
  for (size_t i = 2; i < target.segments.size(); ++i) key += (i == 2 ? "" : "/") + target.segments[i];
  if (target.is_directory && !key.empty()) key += "/";
  return key;
}

// A failure as the response that a client of S3 understands.
Response failed_response(const Error& error, std::string_view missing, std::string_view resource) {
  const int status = http_status_of(error);
  const std::string_view code = status == 404   ? missing
                                : status == 403 ? "AccessDenied"
                                : status == 503 ? "SlowDown"
                                                : "InternalError";
  return error_response(status, code, printable(error.message), resource);
}

}  // namespace

bool ObjectStore::is_signed(const Request& request, const Target& target) const {
  return !keys_.empty() && is_of_store(target) && !check_signature(keys_, request, std::time(nullptr));
}

std::optional<Response> ObjectStore::refuse(const Refusal& refusal, const Request& request) const {
  const auto target = httpd::parse_target(request.target);
  const bool is_own = target ? is_of_store(*target) : request.target.starts_with("/.s3/");
  if (!is_own) return std::nullopt;
  const std::string resource = request.target.substr(0, request.target.find('?'));
  if (refusal.status == 401) {
    const auto denial = check_signature(keys_, request, std::time(nullptr));
    if (denial) return error_response(denial->status, denial->code, denial->message, resource);
    return error_response(403, "AccessDenied", "Access Denied", resource);
  }
  const std::string_view code = refusal.status == 403   ? "AccessDenied"
                                : refusal.status == 404 ? "NoSuchKey"
                                : refusal.status == 405 ? "MethodNotAllowed"
                                : refusal.status == 412 ? "PreconditionFailed"
                                : refusal.status == 501 ? "NotImplemented"
                                : refusal.status == 503 ? "SlowDown"
                                : refusal.status >= 500 ? "InternalError"
                                                        : "InvalidRequest";
  return error_response(refusal.status, code, refusal.message, resource);
}

std::optional<Accepted<Response>> ObjectStore::answer(const Request& request, const Target& target,
                                                      const std::function<bool()>& has_left) {
  if (!is_of_store(target)) return std::nullopt;
  const auto key = key_of(target);
  if (!key) return error_response(404, "NoSuchKey", "No object has a key with such components", target.path);
  const bool has_bucket = target.segments.size() > 1;
  return answer({request, target, has_left, has_bucket ? target.segments[1] : "", *key});
}

Accepted<Response> ObjectStore::answer(const Call& call) {
  if (call.request.method == "POST") return httpd::refused(405, "objects are only read");
  if (call.bucket.empty()) return list_buckets(call);
  const auto found = buckets_.find(call.bucket);
  if (!found) return failed_response(found.error(), "NoSuchBucket", call.target.path);
  const bool is_mirrored = !*found && mirrored_.mirror != nullptr && mirrored_.mirror->is_permitted(call.bucket);
  if (!*found && !is_mirrored) return call.error(404, "NoSuchBucket", "The specified bucket does not exist");
  for (const std::string_view other : kOthers)
    if (call.has(other) && (other != "partNumber" || call.text(other) != "1"))
      return call.error(501, "NotImplemented", fmt::format("{} is not implemented", other));
  if (call.key.empty()) return answer_bucket(call, *found);
  return is_mirrored ? mirrored_object(call) : object(call, **found);
}

Accepted<Response> ObjectStore::xml(std::string text) {
  const api::ContentPtr content = ACCEPT(results_.share({.type = "application/xml", .bytes = std::move(text)}));
  Response response;
  add_common_fields(response);
  response.add("Content-Type", content->type).add("Cache-Control", "no-cache");
  response.add("x-amz-bucket-region", kRegion);
  response.body.emplace_back(httpd::SharedText{{content, &content->bytes}});
  return response;
}

Accepted<Response> ObjectStore::list_buckets(const Call& call) {
  const auto buckets = buckets_.list();
  if (!buckets) return failed_response(buckets.error(), "NoSuchBucket", call.target.path);
  std::string all;
  for (const Bucket& bucket : *buckets) {
    const std::string time = xml_time(seconds_of(bucket.modified));
    all += fmt::format("<Bucket>{}{}</Bucket>", element("Name", bucket.name), element("CreationDate", time));
  }
  const std::string owner = element("ID", "weightfs") + element("DisplayName", "weightfs");
  return xml(document("ListAllMyBucketsResult", fmt::format("<Owner>{}</Owner><Buckets>{}</Buckets>", owner, all)));
}

Accepted<Response> ObjectStore::answer_bucket(const Call& call, const std::optional<hub::FoundModel>& model) {
  if (call.request.is_head()) return xml("");
  if (call.has("location")) return xml(document("LocationConstraint", ""));
  if (call.has("versioning")) return xml(document("VersioningConfiguration", ""));
  if (call.has("versions")) return call.error(501, "NotImplemented", "Objects have no versions");
  return model ? list_objects(call, *model) : list_mirrored(call);
}

// The files of the model, and below views/ the complete views, unless the model itself has files there. These are
// listed only where they are asked for: a copy of a bucket has the model once.
Result<ObjectStore::Shelf> ObjectStore::shelf_of(const Call& call, const hub::FoundModel& model,
                                                 const std::string& key) {
  const std::string above = std::string(hub::kViews) + "/";
  Shelf shelf{TRY(repositories_.read(model, "s3/" + call.bucket, hub::Shows::files)), ""};
  const auto own = std::ranges::lower_bound(shelf.files->files, above, {}, &hub::RepositoryFile::path);
  const bool has_own = own != shelf.files->files.end() && own->path.starts_with(above);
  if (has_own || !key.starts_with(above)) return shelf;
  shelf.files = TRY(repositories_.read(model, "s3-views/" + call.bucket, hub::Shows::views));
  shelf.above = above;
  return shelf;
}

// The model may have been replaced since its files were listed.
Result<Ino> ObjectStore::place_of(const Shelf& shelf, const hub::RepositoryFile& file) {
  const Ino ino = TRY(forest_.resolve(file.place, Forest::FinalLink::followed));
  const bool is_own = shelf.files->shows == hub::Shows::files;
  if (is_own && forest_.model_of(ino) != shelf.files->model.lock())
    return failure(Code::stale, fmt::format("{}: was replaced", shelf.files->id));
  return ino;
}

Result<ObjectFacts> ObjectStore::facts_of(const Shelf& shelf, const hub::RepositoryFile& file) {
  const Ino ino = TRY(place_of(shelf, file));
  const httpd::FileEntity entity = TRY(files_.entity(ino));
  return ObjectFacts{entity.validators.modified.value_or(0), tag_of(file, entity), entity.source->size()};
}

Accepted<Response> ObjectStore::list_objects(const Call& call, const hub::FoundModel& model) {
  const auto query = list_query_of(call.target);
  if (!query) return call.error(400, "InvalidArgument", query.error().message);
  const auto shelf = shelf_of(call, model, query->page.prefix);
  if (!shelf) return failed_response(shelf.error(), "NoSuchBucket", call.target.path);
  const auto& files = shelf->files->files;
  const SortedPaths paths{files.size(), [&](size_t i) { return std::string_view(files[i].path); }};
  auto text = listing_text(call.bucket, call.target, *query, page_of(paths, shelf->above, query->page),
                           [&](size_t i) { return facts_of(*shelf, files[i]); });
  if (!text) return failed_response(text.error(), "NoSuchKey", call.target.path);
  return xml(std::move(*text));
}

// What the mirror has to ask for is bounded by it, and by what --allow permits.
Accepted<Response> ObjectStore::list_mirrored(const Call& call) {
  const auto query = list_query_of(call.target);
  if (!query) return call.error(400, "InvalidArgument", query.error().message);
  const auto listed = mirrored_.mirror->list(call.bucket, query->page.prefix);
  if (!listed) return call.refuse(listed.error());
  const Listing& all = **listed;
  const SortedPaths paths{all.size(), [&](size_t i) { return std::string_view(all[i].key); }};
  auto text = listing_text(call.bucket, call.target, *query, page_of(paths, "", query->page),
                           [&](size_t i) -> Result<ObjectFacts> {
                             return ObjectFacts{seconds_of(all[i].modified), all[i].quoted_tag(), all[i].size};
                           });
  return xml(std::move(*text));
}

Response ObjectStore::object(const Call& call, const hub::FoundModel& model) {
  const auto missing = [&] { return call.error(404, "NoSuchKey", "The specified key does not exist."); };
  if (call.names_version()) return call.no_version();
  const auto shelf = shelf_of(call, model, call.key);
  if (!shelf) return failed_response(shelf.error(), "NoSuchKey", call.target.path);
  const hub::RepositoryFile* const file = shelf->files->find(std::string_view(call.key).substr(shelf->above.size()));
  if (file == nullptr) return missing();
  const auto ino = place_of(*shelf, *file);
  if (!ino) return failed_response(ino.error(), "NoSuchKey", call.target.path);
  const auto entity = files_.entity(*ino);
  if (!entity) return failed_response(entity.error(), "NoSuchKey", call.target.path);
  Response response = files_.send(call.request, *ino, call.file_name(), object_fields(tag_of(*file, *entity)));
  if (response.status == 416) return call.invalid_range(entity->source->size());
  // That of the whole object: clients compare it with the bytes of the response.
  const auto digest = file->sha256 ? file->sha256 : entity->sha256;
  const std::string* const mode = call.request.field("x-amz-checksum-mode");
  if (response.status == 200 && digest && mode != nullptr && lower_case(*mode) == "enabled") {
    const std::string_view bytes(reinterpret_cast<const char*>(digest->bytes.data()), digest->bytes.size());
    response.add("x-amz-checksum-sha256", base64(bytes)).add("x-amz-checksum-type", "FULL_OBJECT");
  }
  return response;
}

Response ObjectStore::mirrored_object(const Call& call) {
  if (call.names_version()) return call.no_version();
  auto found = mirrored_.mirror->object(call.bucket, call.key);
  if (!found) return call.refuse(found.error());
  const MirroredObject& object = found->object;
  httpd::FileFields fields = object_fields(object.quoted_tag());
  if (object.modified > 0) fields.fields.push_back({"Last-Modified", http_date(seconds_of(object.modified))});
  SourcePtr bytes = mirror::for_client(std::move(found->bytes), call.has_left);
  Response response = mirrored_.send(call.request, std::move(bytes), call.file_name(), fields);
  return response.status == 416 ? call.invalid_range(object.size) : response;
}

}  // namespace weightfs::objects
