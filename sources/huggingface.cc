// A SOURCE that is a repository of the Hugging Face Hub: `hf://org/repo`. It is pinned to a commit when it is opened.
#include "sources/huggingface.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <mutex>

#include "base/text.h"
#include "sources/file_list.h"
#include "sources/huggingface_api.h"
#include "sources/kinds.h"

namespace weightfs {
namespace {

using huggingface::Hub;
using huggingface::ListedFile;
using huggingface::Name;
using huggingface::Revision;

// Larger files are stored in LFS or Xet: the Hub refuses to store them in Git.
constexpr uint64_t kMaxGitFile = 64 << 20;

// A repository at a commit, and how its files are downloaded.
class Repository {
 public:
  Repository(Hub hub, Name name, std::string commit)
      : hub_(std::move(hub)), name_(std::move(name)), commit_(std::move(commit)) {}

  Result<SourcePtr> open(const ListedFile& file) const {
    const std::string shown = fmt::format("{}/{}", name_.id, file.path);
    const std::string url = huggingface::file_url(hub_.endpoint, name_, commit_, file.path);
    if (!file.sha256) return open_git_file(file, shown, url);
    const BlobRef ref{shown, *file.sha256, file.size};
    return TRY(hub_.store->resolve_from(ref, {{url, http::Trust::user, hub_.credentials}})).verified;
  }

 private:
  // Files stored in Git are small. They are downloaded whole, and verified before their first byte is served.
  Result<SourcePtr> open_git_file(const ListedFile& file, const std::string& shown, const std::string& url) const {
    if (file.size > kMaxGitFile)
      return failure(Code::unsupported, fmt::format("{}: a file of {} in Git; at most {} are supported", shown,
                                                    human_size(file.size), human_size(kMaxGitFile)));
    const std::string key = fmt::format("git blob {} {}", file.git_id->hex(), file.size);
    if (file.size > kSmallBlob) return hub_.store->materialize(producer_of(file, shown, url, key));
    if (auto saved = hub_.store->load_text(key); saved && git_blob_id(*saved) == *file.git_id)
      return in_memory(std::move(*saved));
    std::string content = TRY(download(hub_, name_, file, shown, url));
    hub_.store->save_text(key, content);
    return in_memory(std::move(content));
  }

  static Result<std::string> download(const Hub& hub, const Name& name, const ListedFile& file,
                                      const std::string& shown, const std::string& url) {
    if (hub.http == nullptr)
      return failure(Code::network, fmt::format("{}: not cached, and downloads are disabled by --offline", shown));
    const http::Request request{.url = url, .credentials = hub.credentials};
    auto response =
        TRY(registry::request_with_retry(*hub.http, request, static_cast<size_t>(file.size), std::stop_token()));
    if (response.head.status != 200) {
      Name at = name;
      at.path = file.path;
      return tl::unexpected(huggingface::error_of(hub, at, response));
    }
    if (response.body.size() == file.size && git_blob_id(response.body) == *file.git_id)
      return std::move(response.body);
    return failure(
        Code::mismatch,
        fmt::format("{}: the server sends {} bytes with the Git object id {}, and lists {} bytes with {}", shown,
                    response.body.size(), git_blob_id(response.body).hex(), file.size, file.git_id->hex()));
  }

  // The bytes of a file that was downloaded for its first reader. A small store reads the stream twice.
  class ContentStream final : public Stream {
   public:
    explicit ContentStream(std::shared_ptr<const std::string> content) : content_(std::move(content)) {}
    Result<size_t> next(std::span<std::byte> out) override {
      const size_t count = std::min(out.size(), content_->size() - at_);
      std::memcpy(out.data(), content_->data() + at_, count);
      at_ += count;
      return count;
    }

   private:
    std::shared_ptr<const std::string> content_;
    size_t at_ = 0;
  };

  BlobProducer producer_of(const ListedFile& file, const std::string& shown, const std::string& url,
                           const std::string& key) const {
    BlobProducer producer{.name = shown, .size = file.size, .key = key};
    // Kept for a second start of the stream, which follows at once: materialize() looks at the first bytes before.
    struct Started {
      std::mutex mutex;
      std::shared_ptr<const std::string> content;
    };
    producer.start = [=, hub = hub_, name = name_, started = std::make_shared<Started>()]() -> Result<StreamPtr> {
      const std::scoped_lock lock(started->mutex);
      if (auto content = std::exchange(started->content, nullptr))
        return std::make_unique<ContentStream>(std::move(content));
      started->content = std::make_shared<const std::string>(TRY(download(hub, name, file, shown, url)));
      return std::make_unique<ContentStream>(started->content);
    };
    return producer;
  }

  const Hub hub_;
  const Name name_;
  const std::string commit_;
};

// A repository, its commit, and its files.
struct OpenedRepository {
  std::shared_ptr<const Repository> repository;
  Name name;  // with the current id, and without a server that is the default one
  Revision revision;
  std::vector<ListedFile> files;

  SourcePtr source_of(const ListedFile& file) const {
    return lazy(file.size, Later<SourcePtr>([repository = repository, file] { return repository->open(file); }));
  }

  const ListedFile* find(std::string_view path) const {
    const auto found =
        std::find_if(files.begin(), files.end(), [&](const ListedFile& file) { return file.path == path; });
    return found == files.end() ? nullptr : &*found;
  }
};

Result<OpenedRepository> open_repository(const std::string& text, const OpenOptions& options) {
  const RegistryOptions& registries = options.registries;
  if (registries.store == nullptr)
    return failure(Code::unsupported, fmt::format("hf:{}: repositories are not available here", text));
  Name name = TRY(huggingface::parse_name(text));
  Hub hub = TRY(huggingface::hub_of(name, registries));
  Revision revision = TRY(huggingface::find_revision(hub, name));
  name.id = revision.id;
  auto files = TRY(huggingface::list_files(hub, name, revision.commit));
  if (revision.facts.find("gated") != nullptr) TRY_VOID(huggingface::check_access(hub, name, revision.commit, files));
  auto repository = std::make_shared<const Repository>(std::move(hub), name, revision.commit);
  name.revision = revision.commit;
  return OpenedRepository{std::move(repository), std::move(name), std::move(revision), std::move(files)};
}

std::string_view last_component(std::string_view path) { return path.substr(path.rfind('/') + 1); }

}  // namespace

Result<SourceEntry> find_huggingface(const std::string& text, const OpenOptions& options, Check check) {
  const OpenedRepository opened = TRY(open_repository(text, options));
  Name name = opened.name;
  const bool is_file = !name.path.empty() && opened.find(name.path) != nullptr;
  std::string directory = name.path;
  if (is_file) directory.resize(name.path.size() - last_component(name.path).size());
  if (!directory.empty() && !directory.ends_with('/')) directory += '/';
  FileListBuilder builder;
  bool is_empty = true;
  for (const ListedFile& file : opened.files) {
    if (!file.path.starts_with(directory)) continue;
    is_empty = false;
    TRY_VOID(builder.add(std::string_view(file.path).substr(directory.size()), {opened.source_of(file)}));
  }
  if (is_empty && !name.path.empty())
    return failure(Code::not_found, fmt::format("{}: no such file or directory", opened.name.text()));
  const std::string last(last_component(name.path.empty() ? name.id : name.path));
  name.path = directory.substr(0, directory.empty() ? 0 : directory.size() - 1);
  const Time modified = opened.revision.modified != 0 ? opened.revision.modified : time_now();
  ListedSource listed{std::move(builder).finish(), last, name.text(), modified, opened.revision.facts};
  if (is_file) listed.file = last;
  SourceEntry entry = listed_source(std::move(listed), options);
  if (is_file && check == Check::model) TRY(std::get<std::function<Result<Opened>()>>(entry.content)());
  return entry;
}

Result<SourcePtr> open_huggingface_file(const std::string& text, const OpenOptions& options) {
  const OpenedRepository opened = TRY(open_repository(text, options));
  if (const ListedFile* const file = opened.find(opened.name.path)) return opened.repository->open(*file);
  return failure(Code::unsupported, fmt::format("{}: names no single file", opened.name.text()));
}

}  // namespace weightfs
