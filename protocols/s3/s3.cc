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
#include "cache/remote/remote_source.h"
#include "protocols/s3/signature.h"
#include "protocols/s3/signer.h"
#include "protocols/s3/xml.h"

namespace weightfs::s3 {
namespace {

const std::string kDefaultRegion = "us-east-1";
constexpr size_t kMaxPage = 8 << 20;  // bytes; 1000 keys of 1024 bytes, encoded
constexpr size_t kMaxPages = 1000;
constexpr size_t kMaxToken = 4096;
// Objects of a listing that nothing holds: more than the shards of a large model. Each has two descriptors.
constexpr size_t kMaxOpen = 192;
constexpr uint64_t kHead = download::RemoteFile::kHead;

bool consists_of(std::string_view text, std::string_view others, bool upper_case) {
  return std::ranges::all_of(text, [&](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (upper_case && c >= 'A' && c <= 'Z') ||
           others.find(c) != others.npos;
  });
}

// Whether the name may be the first label of a host name that has a certificate.
bool is_host_label(const std::string& bucket) {
  return bucket.size() >= 3 && bucket.size() <= 63 && consists_of(bucket, "-", false) && bucket.front() != '-' &&
         bucket.back() != '-';
}

bool is_region(std::string_view text) { return !text.empty() && text.size() <= 40 && consists_of(text, "-", false); }

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

// The URL of the bucket, without a `/` at its end.
std::string url_of(const std::string& bucket, const std::string& endpoint, const std::string& region) {
  if (!endpoint.empty()) return fmt::format("{}/{}", endpoint.substr(0, endpoint.find_last_not_of('/') + 1), bucket);
  const std::string domain = region.starts_with("cn-") ? "amazonaws.com.cn" : "amazonaws.com";
  if (is_host_label(bucket)) return fmt::format("https://{}.s3.{}.{}", bucket, region, domain);
  return fmt::format("https://s3.{}.{}/{}", region, domain, bucket);
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

std::string query_of(const ObjectName& name) {
  return name.version.empty() ? "" : "?versionId=" + http::url_encoded(name.version);
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

// The version in a saved text: the region, a line break, and the version.
std::optional<download::FileVersion> version_in(std::string_view saved) {
  return download::parse_version(saved.substr(std::min(saved.find('\n') + 1, saved.size())));
}

}  // namespace

// Where the bucket is, and what signs requests there.
struct Bucket::Place {
  std::string region;
  std::string url;
  std::shared_ptr<Signer> signer;

  std::string object_url(std::string_view key) const { return fmt::format("{}/{}", url, http::url_encoded(key, "/")); }
  download::Origin origin(const ObjectName& name) const {
    return {.url = object_url(name.key) + query_of(name), .credentials = signer, .error_text = error_text};
  }
};

struct Bucket::Answer {
  download::Response page;
  std::shared_ptr<const Place> place;
};

// An object of a listing, opened by its first read.
class Bucket::ListedObject final : public Source {
 public:
  ListedObject(std::shared_ptr<Bucket> bucket, const Object& object)
      : bucket_(std::move(bucket)), key_(object.key), etag_(object.etag), size_(object.size) {}

  uint64_t size() const override { return size_; }
  /// Limited, because the server states the size.
  uint64_t occupied() const override { return std::min(size_, blobs::RemoteSource::kMaxOccupied); }
  std::string identity() const override {
    return download::identity_of(bucket_->place()->object_url(key_), {size_, etag_}).value_or("");
  }
  VerifiedBy verification() const override { return identity().empty() ? VerifiedBy::unpinned : VerifiedBy::transport; }
  Result<size_t> read(uint64_t offset, std::span<std::byte> out) const override {
    return TRY(open())->read(offset, out);
  }
  Result<size_t> read_ahead(uint64_t offset, std::span<std::byte> out, ByteRange expected) const override {
    return TRY(open())->read_ahead(offset, out, expected);
  }
  Result<void> prefetch(ByteRange range) const override { return TRY(open())->prefetch(range); }
  Result<CachedBytes> cached(ByteRange range) const override { return TRY(open())->cached(range); }
  std::shared_ptr<const void> keep_cached() const override { return open().value_or(nullptr); }

 private:
  Result<SourcePtr> open() const {
    SourcePtr bytes;
    {
      const std::scoped_lock lock(mutex_);
      bytes = bytes_.lock();
      if (bytes != nullptr) return bytes;
      bytes = TRY(bucket_->store_->open_version(bucket_->place()->origin({key_}), {size_, etag_}, ""));
      bytes_ = bytes;
    }
    bucket_->keep_open(bytes);
    return bytes;
  }

  const std::shared_ptr<Bucket> bucket_;
  const std::string key_;
  const std::string etag_;
  const uint64_t size_;
  mutable std::mutex mutex_;  // guards bytes_
  mutable std::weak_ptr<const Source> bytes_;
};

Bucket::Bucket(std::string name, Settings settings, BlobStorePtr store, http::ClientPtr http)
    : name_(std::move(name)), settings_(std::move(settings)), store_(std::move(store)), http_(std::move(http)) {
  const std::string seen = store_->load_text(saved_as("region", "")).value_or("");
  const std::string& configured = settings_.region.empty() ? kDefaultRegion : settings_.region;
  move_to(is_region(seen) ? seen : configured);
}

Result<BucketPtr> Bucket::open(std::string name, Settings settings, BlobStorePtr store, http::ClientPtr http) {
  constexpr size_t kMaxName = 255;
  if (!is_file_name(name) || name.size() > kMaxName || !consists_of(name, "._-", true))
    return failure(Code::unsupported, fmt::format("not a valid bucket name: {}", quoted(name)));
  if (!settings.region.empty() && !is_region(settings.region))
    return failure(Code::unsupported, fmt::format("not a valid AWS region: {}{}{}", settings.region_from,
                                                  settings.region_from.empty() ? "" : "=", quoted(settings.region)));
  if (!settings.endpoint.empty()) TRY_VOID(check_endpoint(settings, http));
  return BucketPtr(new Bucket(std::move(name), std::move(settings), std::move(store), std::move(http)));
}

std::string Bucket::shown(std::string_view key) const { return fmt::format("s3://{}/{}", name_, printable(key)); }

std::shared_ptr<const Bucket::Place> Bucket::place() const {
  const std::scoped_lock lock(mutex_);
  return place_;
}

void Bucket::move_to(std::string region) {
  auto place = std::make_shared<Place>();
  place->url = url_of(name_, settings_.endpoint, region);
  place->signer = std::make_shared<Signer>(settings_.keys, region, settings_.note);
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
    return {Code::forbidden, fmt::format("access denied to {}: {} ({})", shown(key), detail, tried)};
  return {Code::unsupported, fmt::format("{}: {} ({})", shown(key), detail, tried)};
}

std::string Bucket::saved_as(std::string_view kind, std::string_view key) const {
  return fmt::format("{} of {} at {}", kind, shown(key), http::printable_url(settings_.endpoint));
}

// ---- one object

Result<std::optional<OpenObject>> Bucket::find(const ObjectName& name) {
  const std::string key = name.text();
  {
    const std::scoped_lock lock(mutex_);
    const auto found = found_.find(key);
    if (found != found_.end())
      if (auto bytes = found->second.first.lock()) return OpenObject{std::move(bytes), found->second.second};
  }
  auto object = TRY(http_ == nullptr ? find_saved(name) : find_online(name));
  if (!object) return object;
  const std::scoped_lock lock(mutex_);
  std::erase_if(found_, [](const auto& entry) { return entry.second.first.expired(); });
  found_[key] = {object->bytes, object->modified};
  return object;
}

// Compares the first bytes of an object of `size` bytes with what was asked for. A store without versions ignores them.
Result<void> Bucket::check_head(const Answer& answer, const ObjectName& name, uint64_t size) const {
  const std::string_view version = answer.page.head.header("x-amz-version-id");
  if (!name.version.empty() && (version.empty() ? "null" : version) != name.version)
    return failure(Code::mismatch, fmt::format("{}: the server sends another version", shown(name.text())));
  if (answer.page.body.size() != std::min(kHead, size))
    return failure(Code::corrupt, fmt::format("{}: content-length contradicts content-range", shown(name.text())));
  return {};
}

Result<std::optional<OpenObject>> Bucket::find_online(const ObjectName& name) {
  const std::string key = name.text();
  std::vector<std::string> headers = {fmt::format("Range: bytes=0-{}", kHead - 1)};
  const auto known = version_in(store_->load_text(saved_as("version", key)).value_or(""));
  if (known && known->has_quoted_etag()) headers.push_back("If-None-Match: " + known->etag);
  auto sent = request(name.key, query_of(name), std::move(headers), kHead);
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
  const bool has_head = head.status == 206 || head.status == 200;
  if (has_head) TRY_VOID(check_head(answer, name, version.size));
  std::string first = has_head ? std::move(answer.page.body) : "";
  if (version.is_pinned() && known != version)
    store_->save_text(saved_as("version", key),
                      fmt::format("{}\n{}", answer.place->region, download::version_text(version)));
  const Time modified = http_time(head.header("last-modified"));
  return OpenObject{TRY(store_->open_version(answer.place->origin(name), version, std::move(first))), modified};
}

Result<std::optional<OpenObject>> Bucket::find_saved(const ObjectName& name) {
  const auto saved = store_->load_text(saved_as("version", name.text()));
  const size_t line = saved ? saved->find('\n') : std::string::npos;
  if (line == std::string::npos) return std::nullopt;
  const auto version = version_in(*saved);
  if (!version || !is_region(saved->substr(0, line))) return std::nullopt;
  move_to(saved->substr(0, line));
  return OpenObject{TRY(store_->open_version(place()->origin(name), *version, "")), 0};
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

// The saved text: the region, and a line for each object.
Result<std::vector<Object>> Bucket::list(const std::string& prefix) {
  if (http_ == nullptr) return list_saved(prefix);
  auto objects = list_online(prefix);
  if (!objects && is_about_the_network(objects.error()) && store_->load_text(saved_as("listing", prefix)))
    objects.error().message += "; use --offline for the saved listing";
  std::string text = place()->region + "\n";
  for (const Object& object : TRY(objects))
    text += fmt::format("{} {} {} {}\n", object.size, object.modified, object.etag.empty() ? "-" : object.etag,
                        http::url_encoded(object.key, "/"));
  store_->save_text(saved_as("listing", prefix), text);
  return objects;
}

Result<std::vector<Object>> Bucket::list_online(const std::string& prefix) {
  std::vector<Object> objects;
  std::set<std::string> tokens;
  std::string token;
  for (size_t pages = 0; pages < kMaxPages; ++pages) {
    // The parameters are sorted, as the signature needs them.
    const std::string from = token.empty() ? "" : fmt::format("continuation-token={}&", http::url_encoded(token));
    const std::string query =
        fmt::format("?{}encoding-type=url&list-type=2&max-keys=1000&prefix={}", from, http::url_encoded(prefix));
    const auto answer = request("", query, {}, kMaxPage);
    if (!answer) return failure(unreachable(answer.error(), prefix));
    if (answer->page.head.status != 200) return tl::unexpected(error_of(*answer, prefix));
    auto page = parse_listing(answer->page.body);
    if (!page) return failure(page.error().code, fmt::format("{}: {}", shown(prefix), page.error().message));
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
    token = std::move(page->next);
    if (token.empty() || token.size() > kMaxToken || !tokens.insert(token).second) break;
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
    const auto key = space == text.npos ? std::nullopt : key_decoded(std::string(text.substr(space + 1)));
    if (!size || !modified || !key)
      return failure(Code::corrupt, fmt::format("{}: invalid saved listing", shown(prefix)));
    const std::string_view etag = text.substr(0, space);
    objects.push_back({*key, *size, etag == "-" ? "" : std::string(etag), static_cast<Time>(*modified)});
  }
  return objects;
}

}  // namespace weightfs::s3
