#include "cache/store/disk_backend.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/files/file_io.h"
#include "base/os/descriptor.h"
#include "base/os/system_error.h"
#include "base/text.h"

namespace weightfs::store {
namespace {

// Open blobs: enough for concurrent reads, few of a process's 1024 descriptors.
constexpr size_t kMaxOpen = 128;

// The number of blobs with check state in memory: 64 KiB for a blob of 1 GiB.
constexpr size_t kMaxChecks = 1024;

// acquire() repeats only when another process interfered.
constexpr int kMaxAttempts = 1000;

class DiskPartialBlob final : public PartialBlob {
 public:
  DiskPartialBlob(std::shared_ptr<DiskBackend> backend, FoldersPtr folders, BlobName name, std::optional<uint64_t> size,
                  SharedDescriptor file, std::string file_name, const std::stop_token& stop)
      : backend_(std::move(backend)),
        folders_(std::move(folders)),
        name_(std::move(name)),
        size_(size),
        file_(std::move(file)),
        file_name_(std::move(file_name)),
        stop_(stop) {}

  // A published file no longer has this name.
  ~DiskPartialBlob() override {
    const Descriptor& making = *folders_->making;
    if (is_same_file(making, file_name_, file_->number())) ::unlinkat(making.number(), file_name_.c_str(), 0);
    unlock(file_->number());
  }

  Result<void> reserve(uint64_t size, Eviction eviction) override {
    if (size <= reserved_) return {};
    TRY_VOID(backend_->disk_quota().reserve(*folders_, file_->number(), size, eviction, stop_));
    reserved_ = size;
    return {};
  }

  Result<void> write(std::span<const std::byte> bytes) override {
    const uint64_t offset = sums_.size();
    // The list gets what space the blob leaves.
    if (offset == 0 && name_.digest && size_) list_ = backend_->start_list(*size_);
    if (list_ != nullptr) list_->add(bytes);
    sums_.add(bytes);
    if (write_fully(file_->number(), offset, bytes)) return {};
    const bool full = is_full(errno);
    const Error error = io_error("cannot write a blob");
    const bool freed = full && backend_->disk_quota().free_up(*folders_, bytes.size(), stop_);
    if (freed && write_fully(file_->number(), offset, bytes)) return {};
    return tl::unexpected(error);
  }

  FileRangePtr range() const override { return std::make_shared<FileRange>(file_, INT64_MAX); }

  Result<BlobHandle> publish(const Digest& digest) override {
    const uint64_t size = sums_.size();
    // frees blocks beyond the end
    if (reserved_ > size) std::ignore = ::ftruncate(file_->number(), static_cast<off_t>(size));
    if (::fsync(file_->number()) != 0) return failure(io_error(folders_->top));
    const auto move = [&](const std::string& to) {
      const Descriptor& making = *folders_->making;
      return is_same_file(making, file_name_, file_->number()) &&
             ::renameat(making.number(), file_name_.c_str(), folders_->blobs->number(), to.c_str()) == 0;
    };
    BlobHandle handle = TRY(backend_->publish(*folders_, name_, file_, digest, std::move(sums_), move));
    if (list_ != nullptr) list_->publish(digest);
    return handle;
  }

 private:
  std::shared_ptr<DiskBackend> backend_;
  FoldersPtr folders_;
  BlobName name_;
  const std::optional<uint64_t> size_;  // if known
  std::unique_ptr<ListWriter> list_;    // null before the first write, and without a list
  SharedDescriptor file_;
  std::string file_name_;  // in making/
  const std::stop_token stop_;
  uint64_t reserved_ = 0;
  BlockSums sums_;  // of the written bytes
};

std::string_view prefix_of(DigestOf of) { return of == DigestOf::external ? kExternalDigest : ""; }

bool is_deleted(const BlobHandle& blob) {
  struct stat status {};
  return ::fstat(blob.range->file()->number(), &status) == 0 && status.st_nlink == 0;
}

std::optional<Digest> digest_in_index(const Folders& folders, DigestOf of, const std::string& key) {
  const auto text = link_target(*folders.index, index_link(key));
  const std::string_view prefix = prefix_of(of);
  return text && text->starts_with(prefix) ? digest_of_hex(text->substr(prefix.size())) : std::nullopt;
}

// Symbolic links are created atomically with their target (symlink(2)).
Result<void> link(const Folders& folders, DigestOf of, const std::string& key, const Digest& digest) {
  const Descriptor& index = *folders.index;
  const std::string path = index_link(key);
  const std::string text = fmt::format("{}{}", prefix_of(of), digest.hex());
  if (link_target(index, path) == text) return {};
  ::unlinkat(index.number(), path.c_str(), 0);
  if (::symlinkat(text.c_str(), index.number(), path.c_str()) == 0 || errno == EEXIST) return {};
  return failure(io_error("cannot write the cache's index"));
}

}  // namespace

DiskBackend::DiskBackend(const std::string& directory, std::optional<uint64_t> quota, Recheck recheck,
                         std::function<void(const std::string&)> log, EnableVerity enable)
    : top_(directory),
      disk_quota_(quota ? *quota : default_quota(directory), [this] { drop_deleted(); }),
      suffix_(boot_id().empty() ? random_hex() : boot_id()),
      enable_(std::move(enable)),
      recheck_(recheck),
      log_(std::move(log)),
      open_blobs_(kMaxOpen) {}

// Opened for each use, which takes microseconds, so a removed directory is created again.
Result<FoldersPtr> DiskBackend::folders(Missing missing) {
  FoldersPtr folders = TRY(open_folders(top_, missing));
  std::call_once(swept_, [&] { sweep(*folders); });
  return folders;
}

BlobHandle DiskBackend::find_open(const BlobName& name) {
  const std::scoped_lock lock(mutex_);
  return open_blobs_.find(name.text);
}

// Closes deleted blobs too, because that frees their disk space.
void DiskBackend::keep_open(const BlobName& name, const BlobHandle& blob) {
  drop_deleted();
  OpenBlobs::Dropped dropped;  // destroyed without the lock
  const std::scoped_lock lock(mutex_);
  dropped = open_blobs_.keep(name.text, blob);
}

void DiskBackend::drop_deleted() {
  OpenBlobs::Dropped deleted;  // destroyed without the lock
  const std::scoped_lock lock(mutex_);
  deleted = open_blobs_.drop_if(is_deleted);
}

BlobHandle DiskBackend::find(const BlobName& name, std::optional<uint64_t> size) {
  const auto folders = this->folders(Missing::fail);
  return folders ? find_in(**folders, name, size) : BlobHandle{};
}

// For eviction. Has no effect on a read-only file system, or if the cache is full.
void DiskBackend::record_use(const Folders& folders, const Digest& file) {
  if (!touch_names(folders, file) && disk_quota_.try_reserve(folders, 1)) write_names(folders, file, {});
}

// A different size means a different blob, because any container may declare a digest. A truncated file is replaced
// when its blob is produced again.
BlobHandle DiskBackend::find_in(const Folders& folders, const BlobName& name, std::optional<uint64_t> size) {
  const auto digest =
      name.digest || name.key.empty() ? name.digest : digest_in_index(folders, DigestOf::cached, name.key);
  if (!digest) return {};
  auto file = std::make_shared<Descriptor>(open_blob(folders, *digest));
  struct stat status {};
  if (!*file || ::fstat(file->number(), &status) != 0 || !S_ISREG(status.st_mode)) return {};
  const auto found_size = static_cast<uint64_t>(status.st_size);
  if (size && found_size != *size) return {};
  record_use(folders, *digest);
  const BlobHandle handle{with_recheck(std::move(file), status.st_ino, found_size, *digest), *digest};
  keep_open(name, handle);
  return handle;
}

std::optional<Digest> DiskBackend::find_digest(DigestOf of, const std::string& key) {
  const auto folders = this->folders(Missing::fail);
  return folders ? digest_in_index(**folders, of, key) : std::nullopt;
}

Result<void> DiskBackend::save_digest(DigestOf of, const std::string& key, const Digest& digest) {
  const FoldersPtr folders = TRY(this->folders(Missing::create));
  TRY_VOID(disk_quota_.reserve_link(*folders));
  return link(*folders, of, key, digest);
}

Result<BlockFilePtr> DiskBackend::open_blocks(const std::string& identity, uint64_t size) {
  BlockFile::Space space;
  space.reserve = [self = shared_from_this()](int fd, uint64_t from, uint64_t to) -> Result<void> {
    const FoldersPtr folders = TRY(self->folders(Missing::create));
    return self->disk_quota_.reserve_range(*folders, fd, from, to, self->stop_.get_token());
  };
  space.allocate_first = [self = shared_from_this()](int fd, uint64_t bytes) -> Result<void> {
    const FoldersPtr folders = TRY(self->folders(Missing::create));
    return self->disk_quota_.reserve(*folders, fd, bytes, Eviction::allowed, self->stop_.get_token());
  };
  const FoldersPtr folders = TRY(this->folders(Missing::create));
  if (identity.empty()) return BlockFile::open(TRY(new_file(folders)), size, identity, std::move(space));
  const Digest name = sha256(identity);
  const std::string path = blocks_file(name);
  const int root = folders->root->number();
  ::mkdirat(root, kBlocksFolder, 0700);  // a failure shows when the file is created
  for (int attempt = 0;; ++attempt) {
    if (attempt < kMaxAttempts && remove_if_no_file(*folders, *folders->root, path)) continue;
    const int fd = ::openat(root, path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) return failure(io_error(top_));
    auto file = std::make_shared<Descriptor>(fd);
    record_use(*folders, name);
    auto blocks = BlockFile::open(file, size, identity, space);
    if (blocks || blocks.error().code != Code::not_found || attempt == kMaxAttempts) return blocks;
    std::ignore = BlockFile::evict(*folders->root, path, fd, BlockFile::Held::remove);
  }
}

// A file in making/, which is counted, and removed when it is closed.
Result<SharedDescriptor> DiskBackend::new_file(const FoldersPtr& folders) const {
  const int making = folders->making->number();
  for (int attempt = 0; attempt < kMaxAttempts; ++attempt) {
    const std::string name = fmt::format("blocks-{}.{}", random_hex(), suffix_);
    const int fd = ::openat(making, name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) return failure(io_error(top_));
    const auto remove = [folders, name](const Descriptor* file) {
      ::unlinkat(folders->making->number(), name.c_str(), 0);
      delete file;
    };
    SharedDescriptor file(new Descriptor(fd), remove);
    if (try_lock(fd) && is_same_file(*folders->making, name, fd)) return file;  // else swept by another process
  }
  return failure(Code::resource, fmt::format("{}: other processes keep changing the cache", top_));
}

// The bytes are on the disk already (BlockFile::flush).
Result<BlobHandle> DiskBackend::publish_blocks(const BlockFilePtr& blocks, const BlobName& name, const Digest& digest,
                                               BlockSums sums) {
  if (blocks->identity().empty())
    return failure(Code::unsupported, "the server does not identify the version of the file");
  const FoldersPtr folders = TRY(this->folders(Missing::create));
  const Digest file = sha256(blocks->identity());
  const auto move = [&](const std::string& to) {
    return blocks->publish_as(*folders->root, blocks_file(file), *folders->blobs, to);
  };
  // What was pinned as ranges stays pinned, and is never without a pin meanwhile.
  const bool pinned = is_pinned(*folders, file);
  if (pinned) TRY(add_pin(*folders, digest));
  BlobHandle handle = TRY(publish(*folders, name, blocks->descriptor(), digest, std::move(sums), move));
  add_names(*folders, digest, names_of(*folders, file));
  if (pinned) std::ignore = remove_pin(*folders, file);
  remove_names(*folders, file);
  return handle;
}

void DiskBackend::add_names(const Digest& blob, const std::vector<Name>& names) {
  const auto folders = this->folders(Missing::fail);
  if (folders && has_blob(**folders, blob)) add_names(**folders, blob, names);
}

void DiskBackend::add_names(const std::string& identity, const std::vector<Name>& names) {
  const auto folders = this->folders(Missing::fail);
  if (folders && !identity.empty()) add_names(**folders, sha256(identity), names);
}

void DiskBackend::add_names(const Folders& folders, const Digest& file, const std::vector<Name>& names) {
  std::vector<Name> all = names_of(folders, file);
  const size_t before = all.size();
  for (const Name& name : names)
    if (std::ranges::find(all, name) == all.end()) all.push_back(name);
  if (all.size() == before || (before == 0 && !disk_quota_.try_reserve(folders, 1))) return;
  write_names(folders, file, all);
}

void DiskBackend::remove_blocks(const std::string& identity, BlockFile::Held held) {
  if (const auto folders = this->folders(Missing::fail))
    std::ignore = weightfs::remove_blocks(**folders, sha256(identity), held);
}

std::unique_ptr<ListWriter> DiskBackend::start_list(uint64_t size) {
  if (size <= BlockSums::kWorthAFile) return nullptr;
  const auto folders = this->folders(Missing::fail);
  if (!folders) return nullptr;
  return ListWriter::create(*folders, disk_quota_, fmt::format("list-{}.{}", random_hex(), suffix_), size);
}

Result<std::optional<Digest>> DiskBackend::copy_list(const Digest& blob, uint64_t size,
                                                     const BlockListBuilder::Write& write) {
  const auto folders = this->folders(Missing::fail);
  if (!folders) return std::nullopt;
  std::optional<Error> not_written;
  const auto copied =
      store::copy_list(**folders, blob, size, [&](uint64_t offset, std::span<const std::byte> bytes) -> Result<void> {
        auto written = write(offset, bytes);
        if (!written) not_written = written.error();
        return written;
      });
  if (not_written) return tl::unexpected(*not_written);
  if (copied) return *copied;
  if (copied.error().code == Code::not_found) return std::nullopt;
  ::unlinkat((*folders)->root->number(), list_file(blob).c_str(), 0);
  if (log_) log_(fmt::format("block list of {}: {}; removed", blob.hex(), copied.error().message));
  return std::nullopt;
}

Result<AcquireResult> DiskBackend::acquire(const BlobName& name, std::optional<uint64_t> size,
                                           const std::stop_token& stop) {
  const std::string file_name = fmt::format("{}.{}", name.text, suffix_);
  for (int attempt = 0; attempt < kMaxAttempts; ++attempt) {
    const FoldersPtr folders = TRY(this->folders(Missing::create));
    if (auto handle = find_in(*folders, name, size)) return AcquireResult{.cached = std::move(handle)};
    const Descriptor& making = *folders->making;
    if (remove_if_no_file(*folders, making, file_name)) continue;
    const int fd = ::openat(making.number(), file_name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) return failure(io_error(top_));
    auto file = std::make_shared<Descriptor>(fd);
    const bool locked = try_lock(fd);
    if (!locked && errno != EWOULDBLOCK) return failure(io_error(top_));
    struct stat status {};
    if (::fstat(fd, &status) != 0) return failure(io_error(top_));
    const auto current_size = static_cast<uint64_t>(status.st_size);
    if (!locked) return AcquireResult{.other_range = std::make_shared<FileRange>(std::move(file), current_size)};
    if (!is_same_file(making, file_name, fd)) continue;  // its writer renamed or removed it before the lock
    if (current_size > 0) {                              // its writer is dead
      ::unlinkat(making.number(), file_name.c_str(), 0);
      continue;
    }
    auto partial =
        std::make_unique<DiskPartialBlob>(shared_from_this(), folders, name, size, std::move(file), file_name, stop);
    // The previous holder of the lock may have published it.
    if (auto handle = find_in(*folders, name, size)) return AcquireResult{.cached = std::move(handle)};
    return AcquireResult{.partial = std::move(partial)};
  }
  return failure(Code::resource, fmt::format("{}: other processes keep changing the cache; gave up after {} attempts",
                                             top_, kMaxAttempts));
}

// The published file is opened for reading only: fs-verity needs a file that nothing has open for writing.
Result<BlobHandle> DiskBackend::publish(const Folders& folders, const BlobName& name, const SharedDescriptor& file,
                                        const Digest& digest, BlockSums sums, const Move& move) {
  const std::string path = blob_file(digest);
  if (::mkdirat(folders.blobs->number(), path.substr(0, path.find('/')).c_str(), 0700) != 0 && errno != EEXIST)
    return failure(io_error(top_));
  // The link first: a dead link is harmless, an unreachable blob is not.
  if (!name.key.empty()) TRY_VOID(link(folders, DigestOf::cached, name.key, digest));
  // Another process may have removed the directory, and may be writing the same blob.
  if (!move(path) && !(remove_if_no_file(folders, *folders.blobs, path) && move(path))) {
    if (errno == ENOENT) return failure(Code::resource, fmt::format("{}: removed by another process", top_));
    return failure(io_error(top_));
  }
  save_sums(digest, sums);
  struct stat status {};
  if (::fstat(file->number(), &status) != 0) return failure(io_error(top_));
  auto reader = std::make_shared<const Descriptor>(open_blob(folders, digest));
  const bool is_published = *reader && is_same_file(*folders.blobs, path, reader->number()) &&
                            is_same_file(*folders.blobs, path, file->number());
  SharedDescriptor opened = is_published ? std::move(reader) : file;  // another process may have replaced it
  const uint64_t size = sums.size();
  const BlobHandle handle{with_recheck(std::move(opened), status.st_ino, size, digest, std::move(sums)), digest};
  keep_open(name, handle);
  return handle;
}

// The kernel stores a tree of its own, which is as large as a block list.
void DiskBackend::enable_verity(const Digest& blob) {
  const auto folders = this->folders(Missing::fail);
  if (!folders) return;
  std::call_once(probed_, [&] { has_verity_ = has_fs_verity(**folders, enable_); });
  if (!has_verity_) return;
  const Descriptor file = open_blob(**folders, blob);
  struct stat status {};
  if (!file || ::fstat(file.number(), &status) != 0) return;
  const auto size = static_cast<uint64_t>(status.st_size);
  if (size <= BlockSums::kWorthAFile || !disk_quota_.try_reserve(**folders, BlockListLayout(size).list_size())) return;
  enable_(file.number());
}

// Reopened blobs share their check state, so each block is compared once per process.
FileRangePtr DiskBackend::with_recheck(SharedDescriptor file, ino_t inode, uint64_t size, const Digest& digest,
                                       std::optional<BlockSums> sums) {
  if (recheck_ == Recheck::off) return std::make_shared<FileRange>(std::move(file), size);
  const std::scoped_lock lock(mutex_);
  if (checks_.size() >= kMaxChecks) checks_.clear();
  auto& check = checks_[{digest, inode}];
  if (check == nullptr || sums)
    check = std::make_shared<RecheckedFile>(keeper_of(digest, inode, size), digest, size, std::move(sums));
  return std::make_shared<FileRange>(std::move(file), size, check);
}

BlobKeeper DiskBackend::keeper_of(const Digest& digest, ino_t inode, uint64_t size) {
  const auto self = weak_from_this();
  return {.policy = recheck_,
          .stop = stop_.get_token(),
          .saved_sums =
              [self, digest, size] {
                const auto backend = self.lock();
                return backend ? backend->saved_sums(digest, size) : std::nullopt;
              },
          .save_sums =
              [self, digest](const BlockSums& sums) {
                if (const auto backend = self.lock()) backend->save_sums(digest, sums);
              },
          .remove_damaged =
              [self, digest, inode](const std::string& what) {
                if (const auto backend = self.lock()) backend->remove_damaged(digest, inode, what);
              }};
}

std::optional<BlockSums> DiskBackend::saved_sums(const Digest& digest, uint64_t size) {
  if (size <= BlockSums::kWorthAFile) return std::nullopt;
  const auto folders = this->folders(Missing::fail);
  return folders ? read_sums(**folders, digest, size) : std::nullopt;
}

// After publication, since checksums without a blob are removed.
void DiskBackend::save_sums(const Digest& digest, const BlockSums& sums) {
  if (sums.size() <= BlockSums::kWorthAFile) return;
  const auto folders = this->folders(Missing::fail);
  if (folders && disk_quota_.try_reserve(**folders, BlockSums::encoded_size(sums.size())))
    write_sums(**folders, digest, sums);
}

// Logs `what` is wrong with the file. Another file may have the name now: it is kept.
void DiskBackend::remove_damaged(const Digest& digest, ino_t inode, const std::string& what) {
  struct stat status {};
  const auto folders = this->folders(Missing::fail);
  if (!folders) return;
  const bool is_there =
      ::fstatat((*folders)->blobs->number(), blob_file(digest).c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0;
  if (!is_there || status.st_ino != inode) return;
  const bool removed = unlink_blob(**folders, digest);
  const Error error = io_error("cannot be removed");
  {
    const std::scoped_lock lock(mutex_);
    if (!removed && !damaged_.insert(digest).second) return;
    checks_.erase({digest, inode});
  }
  drop_deleted();
  if (log_) log_(fmt::format("cached blob {}: {}; {}", digest.hex(), what, removed ? "removed" : error.message));
}

}  // namespace weightfs::store
