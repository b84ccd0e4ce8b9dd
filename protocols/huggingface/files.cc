// The bytes of a file in a repository.
#include <fmt/core.h>

#include <mutex>
#include <utility>

#include "base/text.h"
#include "protocols/huggingface/api.h"
#include "protocols/huggingface/local_cache.h"

namespace weightfs::huggingface {
namespace {

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

  Result<SourcePtr> open() const {
    if (size_ > kMaxGitFile)
      return failure(Code::unsupported, fmt::format("{}: a file of {} in Git; at most {} are supported", shown_,
                                                    human_size(size_), human_size(kMaxGitFile)));
    if (size_ > kSmallBlob) return hub_.store->materialize(producer());
    if (auto saved = hub_.store->load_text(key()); saved && git_blob_id(*saved) == id_)
      return in_memory(std::move(*saved));
    std::string content = TRY(read());
    hub_.store->save_text(key(), content);
    return in_memory(std::move(content));
  }

 private:
  std::string key() const { return fmt::format("git blob {} {}", id_.hex(), size_); }

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

}  // namespace

Result<SourcePtr> open_file(const Hub& hub, const Name& name, const std::string& commit, const ListedFile& file) {
  if (!file.sha256) return GitFile(hub, name, commit, file).open();
  const BlobRef ref{fmt::format("{}/{}", name.id, file.path), *file.sha256, file.size};
  const std::string url = file_url(hub.endpoint, name, commit, file.path);
  return TRY(hub.store->resolve_from(ref, {{url, http::Trust::user, hub.credentials}})).verified;
}

}  // namespace weightfs::huggingface
