#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <set>

#include "base/text.h"
#include "cache/address_policy.h"
#include "cache/download/request_with_retry.h"
#include "protocols/azure.h"
#include "protocols/azure/listing.h"
#include "protocols/azure/signature.h"
#include "protocols/s3/listed_bytes.h"

namespace weightfs::azure {
namespace {

constexpr size_t kMaxPage = 16 << 20;  // bytes; 5000 names of up to 1024 characters, and their properties
constexpr size_t kMaxPages = 1000;
constexpr size_t kMaxMarker = 4096;
// Blobs of a list that nothing holds: more than the shards of a large model. Each has two descriptors.
constexpr size_t kMaxOpen = 192;
constexpr uint64_t kHead = download::RemoteFile::kHead;

std::string described(const download::Response& page) {
  const std::string text = error_text(page.body);
  return fmt::format(": status {}{}{}", page.head.status, text.empty() ? "" : ", ", text);
}

// Removes a number and the space behind it.
std::optional<uint64_t> take_count(std::string_view& line) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), value);
  if (error != std::errc{}) return std::nullopt;
  line.remove_prefix(std::min(line.size(), static_cast<size_t>(end - line.data()) + 1));
  return value;
}

// "SIZE MODIFIED ETAG NAME"; an empty tag is "-".
std::optional<Blob> saved_blob(std::string_view line) {
  const auto size = take_count(line);
  const auto modified = take_count(line);
  const size_t space = line.find(' ');
  if (!size || !modified || space == line.npos) return std::nullopt;
  bool is_valid = true;
  const std::string name = http::url_decoded(line.substr(space + 1), &is_valid);
  const std::string_view etag = line.substr(0, space);
  if (!is_valid || name.empty()) return std::nullopt;
  return Blob{name, *size, etag == "-" ? "" : std::string(etag), static_cast<Time>(*modified)};
}

bool is_directory(const http::Response& head) {
  return lower_case(head.header("x-ms-meta-hdi_isfolder")) == "true" ||
         lower_case(head.header("x-ms-resource-type")) == "directory";
}

// Compares what was received of a blob with the size and the MD5 that the server states. (Get Blob: Content-MD5, and
// x-ms-blob-content-md5 in the response to a range, are of the whole blob, if its uploader stated one.)
Result<void> check_body(const http::Response& head, std::string_view body, uint64_t size, const std::string& shown) {
  if (body.size() != std::min(kHead, size))
    return failure(Code::corrupt, fmt::format("{}: content-length contradicts content-range", shown));
  if (body.size() != size) return {};
  const std::string_view md5 = head.header(head.status == 206 ? "x-ms-blob-content-md5" : "content-md5");
  const std::string found = md5.empty() ? "" : md5_in_base64(body);
  if (!found.empty() && md5 != found)
    return failure(Code::mismatch, fmt::format("{}: the bytes do not match Content-MD5", shown));
  return {};
}

}  // namespace

class Container::ListedBlob final : public s3::ListedBytes {
 public:
  ListedBlob(std::shared_ptr<Container> container, Blob blob)
      : ListedBytes(blob.size), container_(std::move(container)), blob_(std::move(blob)) {}

  std::string identity() const override {
    return download::identity_of(container_->blob_url(blob_.name), {blob_.size, blob_.etag}).value_or("");
  }

 private:
  Result<SourcePtr> open() const override {
    return container_->store_->open_version(container_->origin(blob_.name), {blob_.size, blob_.etag}, "");
  }
  void keep_open(const SourcePtr& bytes) const override { container_->keep_open(bytes); }

  const std::shared_ptr<Container> container_;
  const Blob blob_;
};

Container::Container(const Place& place, const Settings& settings, BlobStorePtr store, http::ClientPtr http)
    : name_(fmt::format("{}/{}", place.account, place.name)),
      url_(place.url(settings)),
      endpoint_(place.is_url || settings.endpoint.empty() || !settings.is_for(place.account, place.domain)
                    ? ""
                    : fmt::format("{}={}", settings.endpoint_from, http::printable_url(settings.endpoint))),
      store_(std::move(store)),
      http_(std::move(http)),
      credentials_(std::make_shared<http::FixedCredentials>("")) {
  if (http_ != nullptr) credentials_ = http_->credentials(place.credentials(settings)).value_or(credentials_);
}

Result<ContainerPtr> Container::open(const Place& place, const Settings& settings, BlobStorePtr store,
                                     http::ClientPtr http) {
  if (!place.is_valid())
    return failure(Code::unsupported, fmt::format("not a valid account and container: {}",
                                                  quoted(fmt::format("{}/{}", place.account, place.name))));
  const bool is_insecure =
      http != nullptr && !http->options().insecure && !is_confidential(http::origin_of(place.url(settings)));
  if (is_insecure)
    return failure(Code::unsupported, fmt::format("{}={}: http:// needs --insecure", settings.endpoint_from,
                                                  http::printable_url(settings.endpoint)));
  return ContainerPtr(new Container(place, settings, std::move(store), std::move(http)));
}

std::string Container::shown(std::string_view name) const { return fmt::format("az://{}/{}", name_, printable(name)); }

std::string Container::saved_as(std::string_view kind, std::string_view name) const {
  return fmt::format("{} of {} at {}", kind, shown(name), url_);
}

std::string Container::blob_url(std::string_view name) const {
  return fmt::format("{}/{}", url_, http::url_encoded(name, "/"));
}

download::Origin Container::origin(std::string_view name) const {
  return {.url = blob_url(name), .credentials = credentials_, .error_text = error_text};
}

// Each open blob has file descriptors, and a list may have more blobs than a process may have descriptors.
void Container::keep_open(SourcePtr bytes) {
  const std::scoped_lock lock(mutex_);
  open_.push_back(std::move(bytes));
  if (open_.size() <= kMaxOpen) return;
  bytes = std::move(open_.front());  // destroyed without the lock
  open_.pop_front();
}

Error Container::unreachable(const Error& error, std::string_view name) const {
  return {error.code, fmt::format("{}: {}{}", shown(name), error.message,
                                  endpoint_.empty() ? "" : fmt::format(" ({})", endpoint_))};
}

// Azure answers 404 and 409 to anonymous requests for what is not public.
Error Container::error_of(const http::Response& head, std::string_view body, std::string_view name) const {
  const std::string code = error_code(body);
  const std::string text = error_text(body);
  const std::string detail = text.empty() ? fmt::format("status {}", head.status) : text;
  const std::string tried = credentials_->description();
  const bool is_denied = head.status == 401 || head.status == 403 || code == "ResourceNotFound" ||
                         code == "PublicAccessNotPermitted" || code == "NoAuthenticationInformation";
  if (is_denied) return {Code::forbidden, fmt::format("access denied to {}: {} ({})", shown(name), detail, tried)};
  if (head.status == 404) return {Code::not_found, fmt::format("{}: {}", shown(name), detail)};
  return {Code::unsupported, fmt::format("{}: {} ({})", shown(name), detail, tried)};
}

// ---- one blob

Result<std::optional<OpenBlob>> Container::find(const std::string& name) {
  {
    const std::scoped_lock lock(mutex_);
    const auto found = found_.find(name);
    if (found != found_.end())
      if (auto bytes = found->second.first.lock()) return OpenBlob{std::move(bytes), found->second.second};
  }
  auto blob = TRY(http_ == nullptr ? find_saved(name) : find_online(name));
  if (!blob) return blob;
  const std::scoped_lock lock(mutex_);
  std::erase_if(found_, [](const auto& entry) { return entry.second.first.expired(); });
  found_[name] = {blob->bytes, blob->modified};
  return blob;
}

Result<std::optional<OpenBlob>> Container::find_online(const std::string& name) {
  http::Request request{.url = blob_url(name), .credentials = credentials_};
  request.headers.push_back(fmt::format("Range: bytes=0-{}", kHead - 1));
  const auto known = download::parse_version(store_->load_text(saved_as("version", name)).value_or(""));
  if (known && known->has_quoted_etag()) request.headers.push_back("If-None-Match: " + known->etag);
  auto page = download::request_with_retry(*http_, request, kHead, store_->stop_token(), described);
  if (!page) return failure(unreachable(page.error(), name));
  const http::Response& head = page->head;
  if (head.status == 404) {
    const std::string code = error_code(page->body);
    if (code != "ContainerNotFound" && code != "ResourceNotFound") return std::nullopt;
  }
  if (is_directory(head)) return std::nullopt;
  auto found = download::head_of(head, known, kHead);
  if (!found && head.status == 416)  // without a size; only an empty blob has no first byte
    found = download::Head{download::version_of(head, 0)};
  const bool has_body = head.status == 206 || head.status == 200;
  if (!found && has_body)
    return failure(Code::unsupported,
                   fmt::format("{}: the size of the blob is not known: {}", shown(name), download::why_no_size(head)));
  if (!found) return tl::unexpected(error_of(head, page->body, name));
  const download::FileVersion& version = found->version;
  if (has_body) TRY_VOID(check_body(head, page->body, version.size, shown(name)));
  std::string first = has_body ? std::move(page->body) : "";
  if (version.is_pinned() && known != version)
    store_->save_text(saved_as("version", name), download::version_text(version));
  const Time modified = time_of(head.header("last-modified"));
  return OpenBlob{TRY(store_->open_version(origin(name), version, std::move(first))), modified};
}

Result<std::optional<OpenBlob>> Container::find_saved(const std::string& name) {
  const auto version = download::parse_version(store_->load_text(saved_as("version", name)).value_or(""));
  if (!version) return std::nullopt;
  return OpenBlob{TRY(store_->open_version(origin(name), *version, "")), 0};
}

SourcePtr Container::bytes_of(const Blob& blob) { return std::make_shared<ListedBlob>(shared_from_this(), blob); }

// ---- the blobs below a prefix

// The saved text has a line for each blob.
Result<std::vector<Blob>> Container::list(const std::string& prefix) {
  if (http_ == nullptr) return list_saved(prefix);
  auto blobs = list_online(prefix);
  if (!blobs && is_about_the_network(blobs.error()) && store_->load_text(saved_as("listing", prefix)))
    blobs.error().message += "; use --offline for the saved listing";
  std::string text;
  for (const Blob& blob : TRY(blobs))
    text += fmt::format("{} {} {} {}\n", blob.size, blob.modified, blob.etag.empty() ? "-" : blob.etag,
                        http::url_encoded(blob.name, "/"));
  store_->save_text(saved_as("listing", prefix), text);
  return blobs;
}

Result<std::vector<Blob>> Container::list_online(const std::string& prefix) {
  std::vector<Blob> blobs;
  std::set<std::string> markers;
  std::string marker;
  for (size_t pages = 0; pages < kMaxPages; ++pages) {
    const std::string from = marker.empty() ? "" : "&marker=" + http::url_encoded(marker);
    const http::Request request{
        .url = fmt::format("{}?comp=list&include=metadata{}&maxresults=5000&prefix={}&restype=container", url_, from,
                           http::url_encoded(prefix)),
        .credentials = credentials_};
    const auto answer = download::request_with_retry(*http_, request, kMaxPage, store_->stop_token(), described);
    if (!answer) return failure(unreachable(answer.error(), prefix));
    if (answer->head.status != 200) return tl::unexpected(error_of(answer->head, answer->body, prefix));
    if (const auto refused = download::web_page_error(*answer)) return failure(unreachable(*refused, prefix));
    auto page = parse_listing(answer->body);
    if (!page) return failure(page.error().code, fmt::format("{}: {}", shown(prefix), page.error().message));
    for (Blob& blob : page->blobs) {
      if (!blob.name.starts_with(prefix))
        return failure(Code::corrupt,
                       fmt::format("{}: the server lists {}, which is not below it", shown(prefix), quoted(blob.name)));
      if (blobs.size() == kMaxBlobs)
        return failure(Code::unsupported,
                       fmt::format("{}: more than {} blobs; name a prefix of fewer", shown(prefix), kMaxBlobs));
      blobs.push_back(std::move(blob));
    }
    if (page->next.empty()) return blobs;  // a page without blobs may have a marker
    marker = std::move(page->next);
    if (marker.size() > kMaxMarker || !markers.insert(marker).second) break;
  }
  return failure(Code::corrupt, fmt::format("{}: the server's list does not end", shown(prefix)));
}

Result<std::vector<Blob>> Container::list_saved(const std::string& prefix) {
  const auto saved = store_->load_text(saved_as("listing", prefix));
  if (!saved)
    return failure(Code::network, fmt::format("{}: listing not cached; retry without --offline", shown(prefix)));
  std::vector<Blob> blobs;
  for (std::string_view rest = *saved; !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    auto blob = saved_blob(line);
    if (!blob) return failure(Code::corrupt, fmt::format("{}: invalid saved listing", shown(prefix)));
    blobs.push_back(std::move(*blob));
  }
  return blobs;
}

}  // namespace weightfs::azure
