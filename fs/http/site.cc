#include "fs/http/site.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <ctime>
#include <utility>

#include "base/blobs.h"
#include "base/cancel.h"
#include "base/text.h"
#include "base/values/base64.h"
#include "base/values/http.h"
#include "base/values/value.h"
#include "formats/completeness.h"
#include "formats/other_files.h"
#include "fs/adapters/error_numbers.h"
#include "fs/http/file_body.h"
#include "fs/http/listing.h"
#include "fs/http/protocol/conditions.h"
#include "fs/http/transfer.h"

namespace weightfs::httpd {
namespace {

constexpr const char* kRetryAfter = "10";  // seconds
constexpr int kUnavailable = 503;
constexpr int kMostRepeats = 3;  // for a model that is replaced meanwhile

// Nothing of a model may run in the origin of this server, so a browser is told the types of plain data only.
std::string_view type_of(std::string_view name) {
  if (name.ends_with(".json")) return "application/json";
  for (const std::string_view text : {".txt", ".toml", ".md", ".yaml", ".yml", ".jinja", "LICENSE", "README"})
    if (name.ends_with(text)) return "text/plain; charset=utf-8";
  return "application/octet-stream";
}

// Browsers would open these, whatever their type.
bool is_active(std::string_view name) {
  const std::string lower = lower_case(name);
  return std::ranges::any_of(std::array{".html", ".htm", ".xhtml", ".svg", ".xml", ".xsl", ".pdf", ".js", ".mjs",
                                        ".css", ".swf", ".mht", ".mhtml"},
                             [&](const char* ending) { return lower.ends_with(ending); });
}

void protect(Response& response, std::string_view name) {
  response.add("X-Content-Type-Options", "nosniff").add("Content-Security-Policy", "sandbox; default-src 'none'");
  response.add("Cross-Origin-Resource-Policy", "same-origin");
  if (is_active(name)) response.add("Content-Disposition", "attachment");
}

std::string joined(const std::vector<std::string>& segments) {
  std::string path;
  for (const std::string& segment : segments) path += (path.empty() ? "" : "/") + segment;
  return path;
}

std::string digest_field(const Digest& digest) {
  const std::string_view bytes(reinterpret_cast<const char*>(digest.bytes.data()), digest.bytes.size());
  return fmt::format("sha-256=:{}:", base64(bytes));
}

bool is_known_method(std::string_view method) {
  static constexpr std::array kKnown = {"POST",      "PUT",   "DELETE", "PATCH", "TRACE", "CONNECT", "PROPFIND",
                                        "PROPPATCH", "MKCOL", "COPY",   "MOVE",  "LOCK",  "UNLOCK"};
  return std::ranges::find(kKnown, method) != kKnown.end();
}

}  // namespace

Site::Site(Forest& forest, SiteOptions options)
    : forest_(forest), options_(std::move(options)), tags_(forest, options_.layout) {}

Response Site::refuse(const Refusal& refusal, const Request* request) const {
  if (request != nullptr && options_.refuse_first)
    if (auto own = options_.refuse_first(refusal, *request)) return std::move(*own);
  Response response{refusal.status};
  const std::string* const accept = request == nullptr ? nullptr : request->field("accept");
  const bool is_json = accept != nullptr && accept->find("application/json") != accept->npos &&
                       accept->find("text/html") == accept->npos;
  std::string body = refusal.message + "\n";
  if (is_json) {
    body = fmt::format("{{\"status\": {}, \"error\": ", refusal.status);
    append_json_string(body, to_utf8(refusal.message));
    body += "}\n";
  }
  response.add("Content-Type", is_json ? "application/json" : "text/plain; charset=utf-8");
  response.add("Cache-Control", "no-store");
  if (refusal.status == 401) {
    // A browser asks its user for a password, but not in the middle of a page's script.
    const std::string* const mode = request == nullptr ? nullptr : request->field("sec-fetch-mode");
    if (mode == nullptr || *mode == "navigate") response.add("WWW-Authenticate", "Basic realm=\"weightfs\"");
    response.add("WWW-Authenticate", "Bearer");
  }
  if (refusal.status == 426) response.add("Upgrade", "websocket").add("Connection", "Upgrade");
  if (refusal.status == 405) response.add("Allow", "GET, HEAD, OPTIONS");
  if (refusal.status == kUnavailable) response.add("Retry-After", kRetryAfter);
  protect(response, "");
  response.body.emplace_back(std::move(body));
  return response;
}

Response Site::answer(const Request& request, const Client& client) const {
  Response response = answer_any(request, client);
  allow_origin(options_.access, request, response);
  return response;
}

Response Site::answer_any(const Request& request, const Client& client) const {
  const bool is_read = request.method == "GET" || request.method == "HEAD";
  if (request.method == "OPTIONS" && request.target == "*")
    return options_response(options_.access, request, Posts::refused);
  const bool is_post = body_of_post(request) > 0;
  if (!is_read && !is_post && request.method != "OPTIONS")
    return refuse(is_known_method(request.method) ? Refusal{405, "only GET, HEAD and OPTIONS are supported"}
                                                  : Refusal{501, "an unknown method"},
                  &request);
  const auto target = parse_target(request.target);
  if (!target) return refuse(target.error(), &request);
  if (const auto permitted = check_access(options_.access, request, *target, is_public(request, *target)); !permitted)
    return refuse(permitted.error(), &request);
  if ((is_read || is_post) && options_.answer_first) {
    if (auto answered = options_.answer_first(request, *target, client)) {
      if (options_.on_used) options_.on_used();
      return *answered ? std::move(**answered) : refuse(answered->error(), &request);
    }
  }
  if (is_post) return refuse({405, "the target takes no POST"}, &request);
  if (is_read) return answer_permitted(request, client, *target);
  const bool takes_posts = options_.max_body && options_.max_body(*target) > 0;
  return options_response(options_.access, request, takes_posts ? Posts::taken : Posts::refused);
}

bool Site::is_public(const Request& request, const Target& target) const {
  return options_.is_public && options_.is_public(request, target);
}

size_t Site::max_body(const Request& request) const {
  const size_t most = body_of_post(request);
  if (most == 0) return 0;
  const auto target = parse_target(request.target);
  return check_access(options_.access, request, *target, is_public(request, *target)) ? most : 0;
}

size_t Site::body_of_post(const Request& request) const {
  if (request.method != "POST" || !options_.max_body) return 0;
  const auto target = parse_target(request.target);
  return target ? options_.max_body(*target) : 0;
}

Response Site::answer_permitted(const Request& request, const Client& client, const Target& target) const {
  const std::string path = joined(target.segments);
  const bool has_slash_in_name = std::ranges::any_of(
      target.segments, [](const std::string& segment) { return segment.find('/') != segment.npos; });
  const auto resolved = [&] {
    if (has_slash_in_name) return Result<Ino>(failure(Code::not_found, ""));
    auto at = forest_.resolve(path, Forest::FinalLink::followed);
    // Reading a model on the way may take long, and another one may have taken its place.
    for (int repeats = 0; repeats < kMostRepeats && !at && at.error().code == Code::stale; ++repeats)
      at = forest_.resolve(path, Forest::FinalLink::followed);
    return at;
  };
  auto found = resolved();
  if (!found && found.error().code == Code::not_found) return missing(request, path);
  if (!found) return failed(request, Forest::kRoot, found.error());
  Response response = answer_resolved(request, client, target, *found);
  // A model that is replaced between resolve() and open() makes the number stale, as it does for the kernel.
  for (int repeats = 0; repeats < kMostRepeats && response.status == kUnavailable; ++repeats) {
    const auto now = resolved();
    if (!now || *now == *found) break;
    found = now;
    response = answer_resolved(request, client, target, *found);
  }
  return response;
}

Response Site::answer_resolved(const Request& request, const Client& client, const Target& target, Ino found) const {
  const bool is_unlisted = forest_.is_unlisted(found);
  const bool is_trusted = has_token(options_.access, request) || (client.is_loopback && !is_forwarded(request) &&
                                                                  is_for_this_machine(options_.access, request));
  if (is_unlisted && !is_trusted)
    return refuse({403, "the status is for this machine, and for requests with the token"}, &request);
  if (!is_unlisted && options_.on_used) options_.on_used();
  const auto attributes = forest_.unsized_attributes(found);
  if (!attributes) return failed(request, found, attributes.error());
  if (attributes->is_directory()) return directory(request, client, found, target);
  if (target.is_directory) return missing(request, joined(target.segments) + "/");
  const std::string& name = target.segments.back();
  return forest_.is_dynamic(found) ? dynamic_file(found, name) : file(request, found, name);
}

// Generated for each request, and different each time.
Response Site::dynamic_file(Ino ino, const std::string& name) const {
  Response response;
  const auto source = forest_.open(ino);
  auto text = source ? read_text(**source, 0, (*source)->size()) : tl::unexpected(source.error());
  if (!text) return refuse({http_status_of(text.error()), text.error().message}, nullptr);
  response.add("Content-Type", name.ends_with(".json") ? "application/json" : "text/plain; charset=utf-8");
  response.add("Cache-Control", "no-store");
  protect(response, name);
  response.body.emplace_back(std::move(*text));
  return response;
}

// The bytes of a response.
struct Site::Sent {
  Ino ino;
  SourcePtr source;
  Validators validators;
  Prefetch* prefetch;  // null: reads are not ahead of the tree
};

Result<FileEntity> Site::entity(Ino ino) const {
  FileEntity entity{TRY(forest_.open(ino)), {}};
  const Time modified = TRY(forest_.unsized_attributes(ino)).modified;
  entity.sha256 = forest_.digest(ino, entity.source);
  entity.validators.etag = tags_.tag_of(ino, *entity.source, entity.sha256);
  if (modified > 0) entity.validators.modified = static_cast<std::time_t>(modified / 1'000'000'000);
  return entity;
}

Response Site::file(const Request& request, Ino ino, const std::string& name, const FileFields& more) const {
  auto entity = this->entity(ino);
  if (!entity) return failed(request, ino, entity.error());
  FileFields fields = more;
  fields.digest = entity->sha256;
  if (!more.etag.empty()) entity->validators.etag = more.etag;
  return send(request, {ino, std::move(entity->source), std::move(entity->validators), options_.prefetch}, name,
              fields);
}

Response Site::source(const Request& request, SourcePtr source, const std::string& name, const FileFields& more) const {
  return send(request, {Forest::kRoot, std::move(source), {more.etag}, nullptr}, name, more);
}

Response Site::send(const Request& request, Sent sent, const std::string& name, const FileFields& more) const {
  const Validators& validators = sent.validators;
  const Verdict verdict = evaluate(request, validators, std::time(nullptr));
  Response response{200, more.fields};
  response.add("ETag", validators.etag).add("Cache-Control", "no-cache").add("Accept-Ranges", "bytes");
  if (validators.modified) response.add("Last-Modified", http_date(*validators.modified));
  if (verdict == Verdict::not_modified) {
    response.status = 304;
    return response;
  }
  if (verdict == Verdict::failed) return refuse({412, "the file has another entity tag or time"}, &request);
  protect(response, name);
  if (more.digest) response.add("Repr-Digest", digest_field(*more.digest));
  const auto open = std::make_shared<OpenFile>(sent.ino, std::move(sent.source), sent.prefetch);
  add_file(response, request, open, verdict, type_of(name));
  if (request.is_head()) return response;
  if (const auto read = read_first(response); !read) return failed(request, sent.ino, read.error());
  return response;
}

Response Site::directory(const Request& request, const Client& client, Ino ino, const Target& target) const {
  if (!target.is_directory) {
    // Relative: a path that begins with two slashes would be another server's.
    const size_t last = target.path.rfind('/') + 1;
    Response response{301};
    response.add("Location",
                 fmt::format("./{}/{}{}", target.path.substr(last), target.query.empty() ? "" : "?", target.query));
    return response;
  }
  ListingQuery query{listing_form(request), "/" + joined(target.segments) + (target.segments.empty() ? "" : "/")};
  query.after = parameter(target.query, "after");
  query.search = parameter(target.query, "q").value_or("");
  if (wants_pages(request)) query.limit = kListingPage;
  if (const auto limit = parameter(target.query, "limit")) {
    query.limit = parse_number<uint64_t>(*limit);
    if (!query.limit || *query.limit == 0) return refuse({400, "limit is not a number of entries"}, &request);
  }
  // A search may take long; its client may type on. One that has only closed its sending end gets a brief answer.
  const auto may_end = std::chrono::steady_clock::now() + kCancelCheck;
  const bool is_search = client.has_left && !query.search.empty();
  const CancelScope scope([&] { return is_search && std::chrono::steady_clock::now() > may_end && client.has_left(); });
  auto response = listing_response(forest_, ino, query);
  if (!response) return failed(request, ino, response.error());
  response->add("X-Content-Type-Options", "nosniff").add("Referrer-Policy", "no-referrer");
  response->add("Cross-Origin-Resource-Policy", "same-origin");
  return std::move(*response);
}

Response Site::missing(const Request& request, const std::string& path) const {
  const std::string meant = options_.suggest ? options_.suggest(path) : "";
  return refuse({404, fmt::format("/{}: not found{}", printable(path), meant)}, &request);
}

Response Site::failed(const Request& request, Ino ino, const Error& error) const {
  if (options_.on_failed) options_.on_failed(ino, error);
  Response response = refuse({http_status_of(error), explained(ino, error)}, &request);
  // Several kinds of failure have one status.
  const bool has_changed = error.code == Code::stale || is_changed_file(error);
  response.add("Weightfs-Error", has_changed ? "changed" : std::string(error_name(error)));
  return response;
}

// The error, and why a tensor was refused, or the line of warnings.txt about it.
std::string Site::explained(Ino ino, const Error& error) const {
  const std::string message = printable(error.message);
  const auto tensor = forest_.tensor_of(ino);
  if (!tensor || error.code != Code::corrupt) return message;
  const Model& model = *tensor->model;
  const std::string name = quoted(model.tensors.name(tensor->index));
  if (model.tensors.is_refused(tensor->index))
    return printable(fmt::format("tensor {} was refused: {}", name,
                                 reason_of_refused(model, model.tensors.name(tensor->index)).message));
  for (const std::string& line : model.warnings)
    if (line.find(name) != line.npos) return message + "\n" + printable(line);
  return message;
}

}  // namespace weightfs::httpd
