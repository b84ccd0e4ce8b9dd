#include "serve/s3/s3.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <ctime>

#include "base/text.h"
#include "base/values/base64.h"
#include "fs/adapters/error_numbers.h"
#include "serve/api/query.h"
#include "serve/hub/names.h"
#include "serve/s3/listing.h"
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
  std::string bucket;  // empty: the list of all
  std::string key;     // empty: the bucket

  std::optional<std::string> parameter(std::string_view name) const { return httpd::parameter(target.query, name); }
  bool has(std::string_view name) const { return parameter(name).has_value(); }
  std::string text(std::string_view name) const { return parameter(name).value_or(""); }
  Response error(int status, std::string_view code, std::string_view message) const {
    return error_response(status, code, message, target.path);
  }
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

// All bytes but those of a path escaped, and a space as clients with either form of escapes read it.
std::string key_text(std::string_view key, Names names) {
  if (names == Names::plain) return std::string(key);
  std::string out;
  for_each_component(key, [&](std::string_view part) { out += httpd::url_segment(part) + "/"; });
  out.pop_back();
  return out;
}

std::string tag_element(std::string_view name, std::string_view text, Names names) {
  return element(name, key_text(text, names));
}

// The query of a listing of either version.
struct ListQuery {
  PageQuery page;
  bool is_second = false;  // ListObjectsV2
};

Accepted<ListQuery> list_query_of(const Target& target) {
  const auto text = [&](const char* name) { return httpd::parameter(target.query, name).value_or(""); };
  ListQuery query;
  query.is_second = text("list-type") == "2";
  const std::string encoding = text("encoding-type");
  if (!encoding.empty() && encoding != "url")
    return httpd::refused(400, "Invalid Encoding Method specified in Request");
  query.page.names = encoding == "url" ? Names::escaped : Names::plain;
  query.page.prefix = text("prefix");
  query.page.delimiter = text("delimiter");
  query.page.after = query.is_second ? text("start-after") : text("marker");
  if (const std::string token = text("continuation-token"); query.is_second && !token.empty()) {
    auto after = from_base64(token);
    if (!after) return httpd::refused(400, "The continuation token provided is incorrect");
    query.page.after = std::move(*after);
  }
  for (const std::string* const each : {&query.page.prefix, &query.page.delimiter, &query.page.after})
    if (each->size() > kMaxKeySize) return httpd::refused(400, "A prefix, delimiter or key has more than 1024 bytes");
  if (const std::string most = text("max-keys"); !most.empty()) {
    const auto number = parse_number<int64_t>(most);
    if (!number || *number < 0) return httpd::refused(400, "Argument max-keys must be an integer from 0 on");
    query.page.most = std::min(static_cast<size_t>(*number), kMaxKeys);
  }
  return query;
}

// What a listing has before its entries.
std::string head_of(const std::string& bucket, const Target& target, const ListQuery& query, const Page& page) {
  const Names names = query.page.names;
  const auto echoed = [&](const char* parameter, const char* name) {
    const auto text = httpd::parameter(target.query, parameter);
    return text && !text->empty() ? tag_element(name, *text, names) : std::string();
  };
  std::string out = element("Name", bucket) + tag_element("Prefix", query.page.prefix, names);
  out += query.is_second ? echoed("start-after", "StartAfter") : tag_element("Marker", query.page.after, names);
  if (query.is_second) {
    if (const auto token = httpd::parameter(target.query, "continuation-token"); token && !token->empty())
      out += element("ContinuationToken", *token);
    out += element("KeyCount", std::to_string(page.entries.size()));
  }
  out += element("MaxKeys", std::to_string(query.page.most)) + echoed("delimiter", "Delimiter");
  if (names == Names::escaped) out += element("EncodingType", "url");
  out += element("IsTruncated", page.is_truncated ? "true" : "false");
  if (page.is_truncated) {
    const std::string& last = page.entries.back().name;
    out += query.is_second ? element("NextContinuationToken", base64(last)) : tag_element("NextMarker", last, names);
  }
  return out;
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

std::optional<Accepted<Response>> ObjectStore::answer(const Request& request, const Target& target) {
  if (!is_of_store(target)) return std::nullopt;
  const auto key = key_of(target);
  if (!key) return error_response(404, "NoSuchKey", "No object has a key with such components", target.path);
  const bool has_bucket = target.segments.size() > 1;
  return answer({request, target, has_bucket ? target.segments[1] : "", *key});
}

Accepted<Response> ObjectStore::answer(const Call& call) {
  if (call.request.method == "POST") return httpd::refused(405, "objects are only read");
  if (call.bucket.empty()) return list_buckets(call);
  const auto found = buckets_.find(call.bucket);
  if (!found) return failed_response(found.error(), "NoSuchBucket", call.target.path);
  if (!*found) return call.error(404, "NoSuchBucket", "The specified bucket does not exist");
  for (const std::string_view other : kOthers)
    if (call.has(other) && (other != "partNumber" || call.text(other) != "1"))
      return call.error(501, "NotImplemented", fmt::format("{} is not implemented", other));
  return call.key.empty() ? answer_bucket(call, **found) : Accepted<Response>(object(call, **found));
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
    const auto time = static_cast<std::time_t>(std::max<Time>(bucket.modified, 0) / 1'000'000'000);
    all += fmt::format("<Bucket>{}{}</Bucket>", element("Name", bucket.name), element("CreationDate", xml_time(time)));
  }
  const std::string owner = element("ID", "weightfs") + element("DisplayName", "weightfs");
  return xml(document("ListAllMyBucketsResult", fmt::format("<Owner>{}</Owner><Buckets>{}</Buckets>", owner, all)));
}

Accepted<Response> ObjectStore::answer_bucket(const Call& call, const hub::FoundModel& model) {
  if (call.request.is_head()) return xml("");
  if (call.has("location")) return xml(document("LocationConstraint", ""));
  if (call.has("versioning")) return xml(document("VersioningConfiguration", ""));
  if (call.has("versions")) return call.error(501, "NotImplemented", "Objects have no versions");
  return list_objects(call, model);
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

Result<std::string> ObjectStore::entry_text(const Shelf& shelf, const hub::RepositoryFile& file,
                                            const std::string& key) {
  const Ino ino = TRY(place_of(shelf, file));
  const httpd::FileEntity entity = TRY(files_.entity(ino));
  return fmt::format("<Contents>{}{}{}{}{}</Contents>", element("Key", key),
                     element("LastModified", xml_time(entity.validators.modified.value_or(0))),
                     element("ETag", tag_of(file, entity)), element("Size", std::to_string(entity.source->size())),
                     element("StorageClass", "STANDARD"));
}

Accepted<Response> ObjectStore::list_objects(const Call& call, const hub::FoundModel& model) {
  const auto query = list_query_of(call.target);
  if (!query) return call.error(400, "InvalidArgument", query.error().message);
  const auto shelf = shelf_of(call, model, query->page.prefix);
  if (!shelf) return failed_response(shelf.error(), "NoSuchBucket", call.target.path);
  const Page page = page_of(shelf->files->files, shelf->above, query->page);
  std::string objects, groups;
  for (const PageEntry& entry : page.entries) {
    const std::string key = key_text(entry.name, query->page.names);
    if (entry.file == nullptr) {
      groups += fmt::format("<CommonPrefixes>{}</CommonPrefixes>", element("Prefix", key));
      continue;
    }
    const auto text = entry_text(*shelf, *entry.file, key);
    if (!text) return failed_response(text.error(), "NoSuchKey", call.target.path);
    objects += *text;
  }
  return xml(document("ListBucketResult", head_of(call.bucket, call.target, *query, page) + objects + groups));
}

Response ObjectStore::object(const Call& call, const hub::FoundModel& model) {
  const auto missing = [&] { return call.error(404, "NoSuchKey", "The specified key does not exist."); };
  const std::string version = call.text("versionId");
  if (!version.empty() && version != "null") return call.error(404, "NoSuchVersion", "Objects have no versions");
  const auto shelf = shelf_of(call, model, call.key);
  if (!shelf) return failed_response(shelf.error(), "NoSuchKey", call.target.path);
  const hub::RepositoryFile* const file = shelf->files->find(std::string_view(call.key).substr(shelf->above.size()));
  if (file == nullptr) return missing();
  const auto ino = place_of(*shelf, *file);
  if (!ino) return failed_response(ino.error(), "NoSuchKey", call.target.path);
  const auto entity = files_.entity(*ino);
  if (!entity) return failed_response(entity.error(), "NoSuchKey", call.target.path);
  httpd::FileFields fields{tag_of(*file, *entity), {}};
  Response ids;
  add_common_fields(ids);
  fields.fields.push_back(ids.fields.front());  // the site adds the others
  Response response = files_.send(call.request, *ino, call.key.substr(call.key.rfind('/') + 1), fields);
  if (response.status == 416) {
    Response refused = call.error(416, "InvalidRange", "The requested range is not satisfiable");
    return refused.add("Content-Range", fmt::format("bytes */{}", entity->source->size()));
  }
  // That of the whole object: clients compare it with the bytes of the response.
  const auto digest = file->sha256 ? file->sha256 : entity->sha256;
  const std::string* const mode = call.request.field("x-amz-checksum-mode");
  if (response.status == 200 && digest && mode != nullptr && lower_case(*mode) == "enabled") {
    const std::string_view bytes(reinterpret_cast<const char*>(digest->bytes.data()), digest->bytes.size());
    response.add("x-amz-checksum-sha256", base64(bytes)).add("x-amz-checksum-type", "FULL_OBJECT");
  }
  return response;
}

}  // namespace weightfs::objects
