#include "protocols/s3.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <set>

#include "base/text.h"
#include "base/values/http.h"
#include "cache/address_policy.h"
#include "cache/download/request_with_retry.h"
#include "protocols/s3/bucket_url.h"
#include "protocols/s3/list_query.h"
#include "protocols/s3/listed_bytes.h"
#include "protocols/s3/signature.h"
#include "protocols/s3/stated_hash.h"
#include "protocols/s3/xml.h"

namespace weightfs::s3 {
namespace {

const std::string kDefaultRegion = "us-east-1";
constexpr size_t kMaxPage = 8 << 20;  // bytes; 1000 keys of 1024 bytes, encoded
constexpr size_t kMaxPages = 1000;
constexpr size_t kMaxToken = 4096;
constexpr const char* kVirtualAdvice = "; set addressing_style = virtual below `s3 =` in the profile";
// Objects of a listing that nothing holds: more than the shards of a large model. Each has two descriptors.
constexpr size_t kMaxOpen = 192;
constexpr uint64_t kHead = download::RemoteFile::kHead;

// Null for a name of a bucket, and of the alias of an access point. (docs.aws.amazon.com: "Referencing access points",
// "Directory bucket naming rules".)
const char* unsupported_name(const std::string& bucket) {
  if (bucket.starts_with("arn:")) return "an ARN is not supported; use the alias of the access point";
  if (bucket.ends_with(".mrap")) return "multi-region access points are not supported: they need signatures by SigV4A";
  if (bucket.ends_with("--x-s3")) return "directory buckets of S3 Express One Zone are not supported";
  return nullptr;
}

// "AWS_ENDPOINT_URL=http://localhost:9000". A user, a password, a query or a fragment is not printed.
std::string shown_endpoint(const Settings& settings) {
  const bool may_be_secret = settings.endpoint.find_first_of("?#@") != std::string::npos;
  const std::string url = may_be_secret ? http::printable_url(settings.endpoint) : printable(settings.endpoint);
  return settings.endpoint_from.empty() ? url : fmt::format("{}={}", settings.endpoint_from, url);
}

Result<void> check_endpoint(const Settings& settings, const http::ClientPtr& http) {
  const std::string& endpoint = settings.endpoint;
  const std::string origin = http::origin_of(endpoint);
  const std::string shown = shown_endpoint(settings);
  if (origin.empty() || endpoint.find_first_of("?#@") != endpoint.npos)
    return failure(Code::unsupported, fmt::format("{}: not a valid endpoint of an object store", shown));
  if (http != nullptr && !http->options().insecure && !is_confidential(origin))
    return failure(Code::unsupported, fmt::format("{}: http:// needs --insecure", shown));
  return {};
}

// A date of a header; 0 if it is not one, or not from 1970 to 2200.
Time http_time(std::string_view text) {
  constexpr std::time_t kEnd = 7'289'654'400;  // the end of the year 2200
  const std::time_t date = parse_http_date(std::string(text)).value_or(0);
  return date < 0 || date >= kEnd ? 0 : Time{date} * 1'000'000'000;
}

std::optional<uint64_t> take_number(std::string_view& line) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), value);
  if (error != std::errc{}) return std::nullopt;
  line.remove_prefix(std::min(line.size(), static_cast<size_t>(end - line.data()) + 1));
  return value;
}

// Where an object was found: a region; or a generation, with its CRC-32C and time if the store states a CRC-32C.
struct SavedPlace {
  std::string name;
  std::optional<uint32_t> crc32c = {};
  Time modified = 0;
};

SavedPlace parse_saved_place(std::string_view line) {
  const size_t space = std::min(line.find(' '), line.size());
  SavedPlace found{std::string(line.substr(0, space))};
  line.remove_prefix(std::min(line.size(), space + 1));
  const auto crc32c = take_number(line);
  const auto modified = take_number(line);
  if (crc32c && modified && *crc32c <= UINT32_MAX) found.crc32c = static_cast<uint32_t>(*crc32c);
  if (found.crc32c) found.modified = static_cast<Time>(*modified);
  return found;
}

std::string saved_generation(const http::Response& head, std::string_view generation) {
  const auto crc32c = stated_hash(head).crc32c;
  return crc32c ? fmt::format("{} {} {}", generation, *crc32c, http_time(head.header("last-modified")))
                : std::string(generation);
}

std::string query_of(const ObjectName& name, const Dialect& dialect) {
  return name.version.empty() ? "" : fmt::format("?{}={}", dialect.version_parameter, http::url_encoded(name.version));
}

// ": status 503, SlowDown: Please reduce your request rate".
std::string text_of(const download::Response& page) {
  const std::string text = error_text(page.body);
  return fmt::format(": status {}{}{}", page.head.status, text.empty() ? "" : ", ", text);
}

// The region that a refusal names, if the request should be repeated there.
std::string region_in(const download::Response& page) {
  constexpr std::array kStatuses = {301, 307, 400, 403};
  if (std::ranges::find(kStatuses, page.head.status) == kStatuses.end()) return {};
  const std::string_view header = page.head.header("x-amz-bucket-region");
  const std::string region = header.empty() ? parse_error(page.body).region : std::string(header);
  return is_region(region) ? region : "";
}

// The version in a saved text: the region or the generation, a line break, and the version.
std::optional<download::FileVersion> version_in(std::string_view saved) {
  return download::parse_version(saved.substr(std::min(saved.find('\n') + 1, saved.size())));
}

}  // namespace

// Where the bucket is, and what signs requests there.
struct Bucket::Place {
  std::string region;
  std::string url;
  const Dialect* dialect;
  http::CredentialsPtr signer;

  std::string object_url(std::string_view key) const { return fmt::format("{}/{}", url, http::url_encoded(key, "/")); }
  download::Origin origin(const ObjectName& name) const {
    return {.url = object_url(name.key) + query_of(name, *dialect),
            .credentials = signer,
            .names_version = dialect->has_generations && !name.version.empty(),
            .error_text = error_text};
  }
};

struct Bucket::Answer {
  download::Response page;
  std::shared_ptr<const Place> place;
};

class Bucket::ListedObject final : public ListedBytes {
 public:
  ListedObject(std::shared_ptr<Bucket> bucket, const Object& object)
      : ListedBytes(object.size), bucket_(std::move(bucket)), object_(object) {}

  std::string identity() const override {
    const std::string url = bucket_->place()->origin({object_.key, object_.generation}).url;
    return download::identity_of(url, {object_.size, object_.etag}).value_or("");
  }

 private:
  Result<SourcePtr> open() const override { return bucket_->open_listed(object_); }
  Result<SourcePtr> open_cached() const override { return bucket_->open_cached(object_); }
  void keep_open(const SourcePtr& bytes) const override { bucket_->keep_open(bytes); }

  const std::shared_ptr<Bucket> bucket_;
  const Object object_;
};

Bucket::Bucket(std::string name, Settings settings, BlobStorePtr store, http::ClientPtr http)
    : name_(std::move(name)), settings_(std::move(settings)), store_(std::move(store)), http_(std::move(http)) {
  const std::string seen = store_->load_text(saved_as("region", "")).value_or("");
  const std::string& configured = settings_.region.empty() ? kDefaultRegion : settings_.region;
  move_to(is_region(seen) ? seen : configured);
}

Result<BucketPtr> Bucket::open(std::string name, Settings settings, BlobStorePtr store, http::ClientPtr http) {
  constexpr size_t kMaxName = 255;
  if (const char* const why = unsupported_name(name); why != nullptr && settings.endpoint.empty())
    return failure(Code::unsupported, fmt::format("{}: {}", quoted(name), why));
  if (!is_file_name(name) || name.size() > kMaxName || !consists_of(name, "._-", true))
    return failure(Code::unsupported, fmt::format("not a valid bucket name: {}", quoted(name)));
  if (!settings.region.empty() && !is_region(settings.region))
    return failure(Code::unsupported, fmt::format("not a valid AWS region: {}{}{}", settings.region_from,
                                                  settings.region_from.empty() ? "" : "=", quoted(settings.region)));
  if (!settings.endpoint.empty()) TRY_VOID(check_endpoint(settings, http));
  return BucketPtr(new Bucket(std::move(name), std::move(settings), std::move(store), std::move(http)));
}

std::string Bucket::shown(std::string_view key) const {
  return fmt::format("{}://{}/{}", dialect().scheme, name_, printable(key));
}

std::shared_ptr<const Bucket::Place> Bucket::place() const {
  const std::scoped_lock lock(mutex_);
  return place_;
}

void Bucket::move_to(std::string region) {
  auto place = std::make_shared<Place>();
  place->url = url_of(name_, settings_.endpoint, settings_.host, region, settings_.addressing);
  place->dialect = settings_.dialect;
  place->signer = std::make_shared<http::FixedCredentials>("");
  if (http_ != nullptr)
    place->signer = http_->credentials({.kind = dialect().credentials, .server = place->url, .region = region})
                        .value_or(place->signer);
  place->region = std::move(region);
  const std::scoped_lock lock(mutex_);
  place_ = std::move(place);
}

// A failure without a response. The user named a bucket, and in a setting a server.
Error Bucket::unreachable(const Error& error, std::string_view key) const {
  return {error.code, fmt::format("{}: {}{}", shown(key), error.message,
                                  settings_.endpoint.empty() ? "" : fmt::format(" ({})", shown_endpoint(settings_)))};
}

// Repeats the request once in the region that the server names.
Result<Bucket::Answer> Bucket::request(const std::string& key, const std::string& query,
                                       std::vector<std::string> headers, size_t max_size) {
  for (bool was_moved = false;; was_moved = true) {
    const auto at = place();
    const http::Request request{.url = at->object_url(key) + query, .headers = headers, .credentials = at->signer};
    Answer answer{TRY(download::request_with_retry(*http_, request, max_size, store_->stop_token(), text_of)), at};
    const std::string region = region_in(answer.page);
    if (was_moved || region.empty() || region == at->region) return answer;
    move_to(region);
    store_->save_text(saved_as("region", ""), region);
  }
}

Error Bucket::error_of(const Answer& answer, std::string_view key) const {
  const int status = answer.page.head.status;
  const std::string text = error_text(answer.page.body);
  const std::string detail = text.empty() ? fmt::format("status {}", status) : text;
  if (status == 404) return {Code::not_found, fmt::format("{}: {}", shown(key), detail)};
  const std::string tried = answer.place->signer->description();
  if (status == 401 || status == 403)
    return {Code::forbidden, fmt::format("access denied to {}: {} ({}){}", shown(key), detail, tried,
                                         text.starts_with("SecondLevelDomainForbidden") ? kVirtualAdvice : "")};
  return {Code::unsupported, fmt::format("{}: {} ({})", shown(key), detail, tried)};
}

std::string Bucket::saved_as(std::string_view kind, std::string_view key) const {
  return fmt::format("{} of {} at {}", kind, shown(key), http::printable_url(settings_.endpoint));
}

// ---- one object

Result<std::optional<OpenObject>> Bucket::find(const ObjectName& name) {
  const std::string key = name.text(dialect());
  {
    const std::scoped_lock lock(mutex_);
    const auto found = found_.find(key);
    if (found != found_.end())
      if (auto bytes = found->second.bytes.lock())
        return OpenObject{std::move(bytes), found->second.modified, found->second.etag};
  }
  std::optional<OpenObject> object;
  if (http_ == nullptr || (dialect().has_generations && !name.version.empty())) object = TRY(find_saved(name));
  if (!object && http_ != nullptr) object = TRY(find_online(name));
  if (!object) return object;
  const std::scoped_lock lock(mutex_);
  std::erase_if(found_, [](const auto& entry) { return entry.second.bytes.expired(); });
  found_[key] = {object->bytes, object->modified, object->etag};
  return object;
}

// Compares the first bytes of an object of `size` bytes with what was asked for. A store without versions ignores them.
Result<void> Bucket::check_head(const Answer& answer, const ObjectName& name, uint64_t size) const {
  const std::string_view version = answer.page.head.header(dialect().version_header);
  if (!name.version.empty() && (version.empty() ? "null" : version) != name.version)
    return failure(Code::mismatch, fmt::format("{}: the server sends another version", shown(name.text(dialect()))));
  if (answer.page.body.size() != std::min(kHead, size))
    return failure(Code::corrupt,
                   fmt::format("{}: content-length contradicts content-range", shown(name.text(dialect()))));
  return {};
}

Result<std::optional<OpenObject>> Bucket::find_online(const ObjectName& name) {
  const std::string key = name.text(dialect());
  std::vector<std::string> headers = {fmt::format("Range: bytes=0-{}", kHead - 1)};
  // An object may have another generation by now, with the same bytes.
  const auto known =
      dialect().has_generations ? std::nullopt : version_in(store_->load_text(saved_as("version", key)).value_or(""));
  if (known && known->has_quoted_etag()) headers.push_back("If-None-Match: " + known->etag);
  auto sent = request(name.key, query_of(name, dialect()), std::move(headers), kHead);
  if (!sent) return failure(unreachable(sent.error(), key));
  Answer& answer = *sent;
  const http::Response& head = answer.page.head;
  auto found = download::head_of(head, known, kHead);
  if (!found && head.status == 416)  // without a size; only an empty object has no first byte
    found = download::Head{download::version_of(head, 0)};
  if (!found && head.status == 404 && parse_error(answer.page.body).code != "NoSuchBucket") return std::nullopt;
  if (!found && (head.status == 200 || head.status == 206))
    return failure(Code::unsupported,
                   fmt::format("{}: the size of the object is not known: {}", shown(key), download::why_no_size(head)));
  if (!found) return tl::unexpected(error_of(answer, key));
  const download::FileVersion& version = found->version;
  if (head.status == 206 || head.status == 200)
    TRY_VOID(check_head(answer, name, version.size));
  else
    answer.page.body.clear();
  if (version.is_pinned() && known != version) {
    const std::string place = dialect().has_generations ? saved_generation(head, head.header(dialect().version_header))
                                                        : answer.place->region;
    store_->save_text(saved_as("version", key), fmt::format("{}\n{}", place, download::version_text(version)));
  }
  return TRY(open_found(answer, name, version));
}

// The generation that was found stays that of all requests. What the store states of the whole object is compared.
Result<OpenObject> Bucket::open_found(const Answer& answer, ObjectName name, const download::FileVersion& version) {
  const http::Response& head = answer.page.head;
  const Time modified = http_time(head.header("last-modified"));
  if (dialect().has_generations && is_generation(head.header(dialect().version_header)))
    name.version = head.header(dialect().version_header);
  const std::string& first = answer.page.body;
  const std::string key = name.text(dialect());
  SourcePtr bytes = TRY(store_->open_version(answer.place->origin(name), version, first));
  const StatedHash stated = stated_hash(head);
  if (!dialect().has_generations || stated.is_empty()) return OpenObject{std::move(bytes), modified, version.etag};
  if (is_refused(key) || (first.size() == version.size && !stated.is_of(first)))
    return failure(Code::mismatch, fmt::format("{}: {}", shown(key), kOtherHash));
  return OpenObject{with_checksum(std::move(bytes), stated, key), modified, version.etag};
}

SourcePtr Bucket::with_checksum(SourcePtr bytes, const StatedHash& stated, const std::string& key) {
  const auto drop = [bucket = weak_from_this(), store = store_, identity = bytes->identity(), key] {
    store->remove_bytes(identity);
    if (const auto kept = bucket.lock()) kept->refuse(key);
  };
  return compared(std::move(bytes), stated, shown(key), drop);
}

bool Bucket::is_refused(const std::string& key) const {
  const std::scoped_lock lock(mutex_);
  return refused_.contains(key);
}

void Bucket::refuse(const std::string& key) {
  const std::scoped_lock lock(mutex_);
  refused_.insert(key);
}

// The request for the hash of an object is also that for its first bytes; it is sent once for a generation. Without the
// hash nothing is compared, so while the server is unreachable, only an object of which all bytes are cached is opened.
Result<SourcePtr> Bucket::open_listed(const Object& object) {
  const ObjectName name{object.key, object.generation};
  if (!dialect().has_generations || name.version.empty() || http_ == nullptr) return open_cached(object);
  auto found = find(name);
  if (found && *found && (*found)->bytes->size() == object.size) return std::move((*found)->bytes);
  if (found) return failure(Code::corrupt, fmt::format("{}: changed on the server; mount it again", shown(object.key)));
  if (!is_about_the_network(found.error())) return tl::unexpected(std::move(found).error());
  SourcePtr bytes = TRY(open_cached(object));
  const auto cached = bytes->cached({0, object.size});
  if (!cached || cached->now < object.size) return tl::unexpected(std::move(found).error());
  return bytes;
}

Result<SourcePtr> Bucket::open_cached(const Object& object) const {
  const ObjectName name{object.key, object.generation};
  return store_->open_version(place()->origin(name), {object.size, object.etag}, "");
}

// With a server only if nothing has to be requested: the object cannot change, and its bytes are compared.
Result<std::optional<OpenObject>> Bucket::find_saved(const ObjectName& name) {
  const auto saved = store_->load_text(saved_as("version", name.text(dialect())));
  const size_t line = saved ? saved->find('\n') : std::string::npos;
  if (line == std::string::npos) return std::nullopt;
  const auto version = version_in(*saved);
  const SavedPlace first = parse_saved_place(std::string_view(*saved).substr(0, line));
  if (!version || (dialect().has_generations ? !is_generation(first.name) : !is_region(first.name)))
    return std::nullopt;
  ObjectName found = name;
  if (dialect().has_generations)
    found.version = first.name;
  else
    move_to(first.name);
  const std::string key = found.text(dialect());
  if (http_ != nullptr && (!first.crc32c || is_refused(key))) return std::nullopt;
  SourcePtr bytes = TRY(store_->open_version(place()->origin(found), *version, ""));
  return OpenObject{with_checksum(std::move(bytes), {.crc32c = first.crc32c}, key), first.modified, version->etag};
}

// Each open object has file descriptors, and a listing may have more objects than a process may have descriptors.
void Bucket::keep_open(SourcePtr bytes) {
  const std::scoped_lock lock(mutex_);
  open_.push_back(std::move(bytes));
  if (open_.size() <= kMaxOpen) return;
  bytes = std::move(open_.front());  // destroyed without the lock
  open_.pop_front();
}

SourcePtr Bucket::bytes_of(const Object& object) { return std::make_shared<ListedObject>(shared_from_this(), object); }

// ---- the objects below a prefix

// The saved text: the region, and a line for each object, with its generation behind a `?`.
Result<std::vector<Object>> Bucket::list(const std::string& prefix) {
  if (http_ == nullptr) return list_saved(prefix);
  auto objects = list_online(prefix);
  if (!objects && is_about_the_network(objects.error()) && store_->load_text(saved_as("listing", prefix)))
    objects.error().message += "; use --offline for the saved listing";
  std::string text = place()->region + "\n";
  for (const Object& object : TRY(objects))
    text += fmt::format("{} {} {} {}{}{}\n", object.size, object.modified, object.etag.empty() ? "-" : object.etag,
                        http::url_encoded(object.key, "/"), object.generation.empty() ? "" : "?", object.generation);
  store_->save_text(saved_as("listing", prefix), text);
  return objects;
}

// The first page also by ListObjects, if the store refuses ListObjectsV2; the error is that of the latter.
Result<Bucket::Answer> Bucket::request_page(const std::string& prefix, ListPosition& at) {
  Answer answer = TRY(request("", at.query(prefix), {}, kMaxPage));
  if (at.is_v1 || !at.after.empty() || !refuses_v2(answer.page)) return answer;
  ListPosition older{.is_v1 = true};
  auto second = request("", older.query(prefix), {}, kMaxPage);
  if (!second || second->page.head.status != 200) return answer;
  at = std::move(older);
  return second;
}

Result<std::vector<Object>> Bucket::list_online(const std::string& prefix) {
  std::vector<Object> objects;
  std::set<std::string> positions;
  ListPosition at;
  for (size_t pages = 0; pages < kMaxPages; ++pages) {
    const auto answer = request_page(prefix, at);
    if (!answer) return failure(unreachable(answer.error(), prefix));
    if (answer->page.head.status != 200) return tl::unexpected(error_of(*answer, prefix));
    if (const auto refused = download::web_page_error(answer->page)) return failure(unreachable(*refused, prefix));
    auto page = parse_listing(answer->page.body);
    if (!page) return failure(page.error().code, fmt::format("{}: {}", shown(prefix), page.error().message));
    if (page->is_truncated) at.move_behind(*page);
    for (Object& object : page->objects) {
      if (!object.key.starts_with(prefix))
        return failure(Code::corrupt, fmt::format("{}: the server lists {}, which is not below it", shown(prefix),
                                                  quoted(object.key)));
      if (objects.size() == kMaxObjects)
        return failure(Code::unsupported,
                       fmt::format("{}: more than {} objects; name a prefix of fewer", shown(prefix), kMaxObjects));
      objects.push_back(std::move(object));
    }
    if (!page->is_truncated) return objects;
    if (at.after.empty() || at.after.size() > kMaxToken || !positions.insert(at.after).second) break;
  }
  return failure(Code::corrupt, fmt::format("{}: the server's listing does not end", shown(prefix)));
}

Result<std::vector<Object>> Bucket::list_saved(const std::string& prefix) {
  const auto saved = store_->load_text(saved_as("listing", prefix));
  if (!saved)
    return failure(Code::network, fmt::format("{}: listing not cached; retry without --offline", shown(prefix)));
  std::string_view rest = *saved;
  const auto line = [&rest] {
    const std::string_view one = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), one.size() + 1));
    return one;
  };
  const std::string region(line());
  if (!is_region(region)) return failure(Code::corrupt, fmt::format("{}: invalid saved listing", shown(prefix)));
  move_to(region);
  std::vector<Object> objects;
  while (!rest.empty()) {
    std::string_view text = line();
    const auto size = take_number(text);
    const auto modified = take_number(text);
    const size_t space = text.find(' ');
    const std::string name(text.substr(std::min(space, text.size() - 1) + 1));
    const size_t question = std::min(name.find('?'), name.size());
    const auto key = space == text.npos ? std::nullopt : key_decoded(name.substr(0, question));
    if (!size || !modified || !key)
      return failure(Code::corrupt, fmt::format("{}: invalid saved listing", shown(prefix)));
    const std::string_view etag = text.substr(0, space);
    objects.push_back({*key, *size, etag == "-" ? "" : std::string(etag), static_cast<Time>(*modified),
                       name.substr(std::min(question + 1, name.size()))});
  }
  return objects;
}

}  // namespace weightfs::s3
