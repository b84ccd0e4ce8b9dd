// The bytes of a file in a repository.
#include <fmt/core.h>

#include <mutex>
#include <utility>

#include "base/text.h"
#include "protocols/huggingface/api.h"
#include "protocols/huggingface/local_cache.h"

namespace weightfs::huggingface {
namespace {

// The first bytes of a file in Git that are requested alone, for summaries: those of a tokenizer.json, which may have
// 30 MB, say what it is.
constexpr uint64_t kHead = 256 << 10;

// A file that is stored in Git. It is small: it is read whole, and verified before its first byte is served.
class GitFile {
 public:
  GitFile(const Hub& hub, Name name, const std::string& commit, const ListedFile& file)
      : hub_(hub),
        name_(std::move(name)),
        size_(file.size),
        id_(*file.git_id),
        shown_(fmt::format("{}/{}", name_.id, file.path)),
        url_(file_url(hub.endpoint, name_, commit, file.path)) {
    name_.path = file.path;
  }

  Result<SourcePtr> open() const;

  uint64_t size() const { return size_; }

  // The first bytes before they are verified; nothing if all are cached or must be read.
  Result<std::optional<std::string>> head() const {
    if (TRY(hub_.store->blob(producer())->cached({0, size_})).now == size_) return std::nullopt;
    if (auto saved = hub_.store->load_text(head_key()); saved && saved->size() == kHead) return saved;
    if (hub_.http == nullptr || read_cached_git_file(name_, id_, size_)) return std::nullopt;
    http::Request request{.url = url_, .credentials = hub_.credentials};
    request.headers.push_back(fmt::format("Range: bytes=0-{}", kHead - 1));
    auto response =
        TRY(download::request_with_retry(*hub_.http, request, static_cast<size_t>(size_), hub_.store->stop_token()));
    const auto range = download::parse_content_range(response.head.header("content-range"));
    const bool is_whole = response.head.status == 200 && git_blob_id(response.body) == id_;
    const bool is_head = response.head.status == 206 && range && range->first == 0 && range->total == size_ &&
                         response.body.size() == kHead;
    if (!is_whole && !is_head) return std::nullopt;
    response.body.resize(kHead);
    hub_.store->save_text(head_key(), response.body);
    return std::move(response.body);
  }
  // Fails if the verified file begins otherwise than what head() returned.
  Result<void> check_head(const Source& whole, const std::string& head) const {
    std::string right = TRY(read_text(whole, 0, head.size()));
    if (right == head) return {};
    hub_.store->save_text(head_key(), right);
    return failure(
        Code::mismatch,
        fmt::format("{}: what was read before verification does not match the verified file; remount", shown_));
  }

 private:
  Result<SourcePtr> open_small() const {
    if (auto saved = hub_.store->load_text(key()); saved && git_blob_id(*saved) == id_)
      return in_memory(std::move(*saved));
    std::string content = TRY(read());
    hub_.store->save_text(key(), content);
    return in_memory(std::move(content));
  }

  std::string key() const { return fmt::format("git blob {} {}", id_.hex(), size_); }
  std::string head_key() const { return fmt::format("head of {} from {}", key(), http::origin_of(url_)); }

  Result<std::string> read() const {
    auto cached = read_cached_git_file(name_, id_, size_);
    if (cached && git_blob_id(*cached) == id_) return std::move(*cached);
    if (hub_.http != nullptr) return download();
    if (cached)
      return failure(Code::mismatch, fmt::format("{}: the file in the cache of huggingface_hub does not match its Git "
                                                 "object id, and downloads are disabled by --offline",
                                                 shown_));
    return failure(Code::network, fmt::format("{}: not cached, and downloads are disabled by --offline", shown_));
  }

  Result<std::string> download() const {
    const http::Request request{.url = url_, .credentials = hub_.credentials};
    const auto stop = hub_.store->stop_token();
    auto response = TRY(download::request_with_retry(*hub_.http, request, static_cast<size_t>(size_), stop));
    if (response.head.status != 200) return tl::unexpected(error_of(hub_, name_, response));
    const Sha1 sent = git_blob_id(response.body);
    if (response.body.size() == size_ && sent == id_) return std::move(response.body);
    if (auto page = download::web_page_error(response)) return tl::unexpected(std::move(*page));
    return failure(Code::mismatch,
                   fmt::format("{}: the server sends {} bytes with the Git object id {}, and lists {} bytes with {}",
                               shown_, response.body.size(), sent.hex(), size_, id_.hex()));
  }

  BlobProducer producer() const {
    // materialize() starts the stream twice at once: the first time, it reads the first bytes only.
    struct Started {
      std::mutex mutex;
      SourcePtr content;
    };
    BlobProducer producer{.name = shown_, .size = size_, .key = key()};
    producer.start = [file = *this, started = std::make_shared<Started>()]() -> Result<StreamPtr> {
      const std::scoped_lock lock(started->mutex);
      if (auto content = std::exchange(started->content, nullptr)) return stream_of(std::move(content));
      started->content = in_memory(TRY(file.read()));
      return stream_of(started->content);
    };
    return producer;
  }

  Hub hub_;
  Name name_;
  uint64_t size_;
  Sha1 id_;
  std::string shown_;
  std::string url_;
};

using Head = Later<std::optional<std::string>>;

// A file in Git before it is verified: its head, if that is enough.
class UnverifiedGitFile final : public Source {
 public:
  UnverifiedGitFile(uint64_t size, Head head, Later<SourcePtr> whole)
      : whole_(std::move(whole)), size_(size), head_(std::move(head)) {}
  uint64_t size() const override { return size_; }
  Result<size_t> read(uint64_t offset, std::span<std::byte> out) const override {
    const size_t count = bytes_inside(size_, offset, out.size());
    const auto head = offset + count <= kHead && !whole_.peek() ? TRY(head_.get()) : std::nullopt;
    if (!head || whole_.peek()) return TRY(whole_.get())->read(offset, out);
    return in_memory(*head)->read(offset, out.first(count));
  }

 private:
  Later<SourcePtr> whole_;
  uint64_t size_;
  Head head_;
};

Result<SourcePtr> GitFile::open() const {
  if (size_ > kMaxGitFile)
    return failure(Code::unsupported, fmt::format("{}: a file of {} in Git; at most {} are supported", shown_,
                                                  human_size(size_), human_size(kMaxGitFile)));
  if (size_ <= kSmallBlob) return open_small();
  if (size_ <= kHead) return hub_.store->materialize(producer());
  const Head head([file = *this] { return file.head(); });
  const Later<SourcePtr> whole([file = *this, head]() -> Result<SourcePtr> {
    SourcePtr made = TRY(file.hub_.store->materialize(file.producer()));
    if (const auto used = head.peek(); used && *used) TRY_VOID(file.check_head(*made, **used));
    return made;
  });
  return lazy(size_, whole, std::make_shared<UnverifiedGitFile>(size_, head, whole));
}

// A file of which the server knows no digest: its ETag names the bytes.
Result<SourcePtr> open_undigested(const Hub& hub, Name name, const std::string& commit, const ListedFile& file) {
  const std::string shown = fmt::format("{}/{}", name.id, file.path);
  const std::string url = file_url(hub.endpoint, name, commit, file.path);
  if (hub.http == nullptr) return failure(Code::network, fmt::format("{}: downloads are disabled by --offline", shown));
  const http::Request request{.url = url, .method = http::Request::Method::head, .credentials = hub.credentials};
  const auto response = TRY(download::request_with_retry(*hub.http, request, 0, hub.store->stop_token()));
  name.path = file.path;
  if (response.head.status != 200) return tl::unexpected(error_of(hub, name, response));
  const auto version = download::version_of(response.head, file.size);
  if (response.head.header("content-length") != std::to_string(file.size))
    return failure(Code::mismatch, fmt::format("{}: the server lists {} bytes and has {}", shown, file.size,
                                               printable(response.head.header("content-length"))));
  return hub.store->open_version({url, http::Trust::user, hub.credentials}, version, "");
}

}  // namespace

Result<SourcePtr> open_file(const Hub& hub, const Name& name, const std::string& commit, const ListedFile& file) {
  if (!file.sha256 && !file.git_id) return open_undigested(hub, name, commit, file);
  if (!file.sha256) return GitFile(hub, name, commit, file).open();
  const BlobRef ref{fmt::format("{}/{}", name.id, file.path), *file.sha256, file.size};
  const std::string url = file_url(hub.endpoint, name, commit, file.path);
  return TRY(hub.store->resolve_from(ref, {{url, http::Trust::user, hub.credentials}})).verified;
}

}  // namespace weightfs::huggingface
