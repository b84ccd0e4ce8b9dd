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

// The number of blobs with check state in memory: 8 KiB for a blob of 1 GiB.
constexpr size_t kMaxChecks = 1024;

// Opening a file repeats only when another process interfered.
constexpr int kMaxAttempts = 1000;

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

// Those of keepers come last: the first ones are dropped where they are too many.
std::vector<Name> joined_names(std::vector<Name> all, const std::vector<Name>& more) {
  for (const Name& name : more)
    if (std::ranges::find(all, name) == all.end()) all.push_back(name);
  std::stable_partition(all.begin(), all.end(), [](const Name& name) { return name.kind != NameKind::keeper; });
  return all;
}

}  // namespace

DiskBackend::DiskBackend(const std::string& directory, std::optional<uint64_t> quota, bool compares_digests,
                         std::function<void(const std::string&)> log)
    : top_(directory),
      temporary_(quota),
      disk_quota_(quota ? *quota : default_quota(directory), [this] { drop_deleted(); }),
      compares_digests_(compares_digests),
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
  return folders ? find_in(**folders, name, size) : temporary_.find(name, size);
}

// For eviction. Has no effect on a read-only file system, or if the cache is full.
void DiskBackend::record_use(const Folders& folders, const Digest& file) {
  if (touch_names(folders, file) || !disk_quota_.try_reserve(folders, 1)) return;
  const auto ledger = QuotaLedger::lock(folders, stop_.get_token());
  if (ledger && !touch_names(folders, file)) write_names(folders, file, {});
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
  CachedFiles files = {std::move(file), open_map(folders, *digest, found_size)};
  const BlobHandle handle{with_recheck(std::move(files), status.st_ino, found_size, *digest), *digest};
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

BlockFile::Space DiskBackend::space() {
  return {.reserve = [self = shared_from_this()](int fd, uint64_t from, uint64_t to) -> Result<void> {
            const FoldersPtr folders = TRY(self->folders(Missing::create));
            return self->disk_quota_.reserve_range(*folders, fd, from, to, self->stop_.get_token());
          },
          .allocate_first = [self = shared_from_this()](int fd, uint64_t bytes, Eviction eviction) -> Result<void> {
            const FoldersPtr folders = TRY(self->folders(Missing::create));
            return self->disk_quota_.reserve(*folders, fd, bytes, eviction, self->stop_.get_token());
          },
          .free_up =
              [self = shared_from_this()](uint64_t bytes) {
                const auto folders = self->folders(Missing::create);
                return folders && self->disk_quota_.free_up(**folders, bytes, self->stop_.get_token());
              }};
}

// No other process can use blocks without an identity.
Result<BlockFilePtr> DiskBackend::open_blocks(const std::string& identity, std::optional<uint64_t> size) {
  if (identity.empty()) return temporary_.open_blocks(identity, size);
  const auto cache = this->folders(Missing::create);
  // A removed cache cannot be made again: the sandbox hides its place. A decoder has its own way to do without.
  if (!cache && !is_new_blob(identity)) {
    std::call_once(told_, [&] {
      if (log_) log_(fmt::format("{}; downloaded bytes are kept in temporary files", cache.error().message));
    });
    return temporary_.open_blocks(identity, size);
  }
  if (!cache) return tl::unexpected(cache.error());
  const FoldersPtr& folders = *cache;
  const Digest name = sha256(identity);
  const std::string path = blocks_file(name);
  const int root = folders->root->number();
  ::mkdirat(root, kBlocksFolder, 0700);  // a failure shows when the file is created
  for (int attempt = 0;; ++attempt) {
    const bool may_repeat = attempt < kMaxAttempts;
    if (may_repeat && remove_if_no_file(*folders, *folders->root, path)) continue;
    if (may_repeat && remove_if_no_file(*folders, *folders->root, map_name(path))) continue;
    auto blocks = BlockFile::open(*folders->root, path, size, identity, space());
    if (blocks && !is_new_blob(identity)) record_use(*folders, name);
    if (blocks || !may_repeat) return blocks;
    // A new blob that a process holds was just created.
    if (blocks.error().code == Code::corrupt)
      std::ignore = BlockFile::evict(*folders->root, path,
                                     is_new_blob(identity) ? BlockFile::Evict::unheld : BlockFile::Evict::all);
    else if (blocks.error().code != Code::not_found)
      return blocks;
  }
}

void DiskBackend::add_names(const Digest& blob, const std::vector<Name>& names) {
  const auto folders = this->folders(Missing::fail);
  if (folders && has_blob(**folders, blob)) add_names(**folders, blob, names);
}

void DiskBackend::add_names(const std::string& identity, const std::vector<Name>& names) {
  const auto folders = this->folders(Missing::fail);
  if (folders && !identity.empty()) add_names(**folders, sha256(identity), names);
}

// With the lock of eviction: no process writes names without those that another one has added meanwhile.
void DiskBackend::add_names(const Folders& folders, const Digest& file, const std::vector<Name>& names) {
  const std::vector<Name> before = names_of(folders, file);
  const bool has_all =
      std::ranges::all_of(names, [&](const Name& name) { return std::ranges::find(before, name) != before.end(); });
  if (has_all || (before.empty() && !disk_quota_.try_reserve(folders, 1))) return;
  const auto ledger = QuotaLedger::lock(folders, stop_.get_token());
  if (ledger) write_names(folders, file, joined_names(names_of(folders, file), names));
}

// After the name: a process that removes blobs without it has the lock from its look at the names on.
bool DiskBackend::keep_blob(const Digest& blob) {
  const auto folders = this->folders(Missing::fail);
  if (!folders) return true;  // in temporary files
  add_names(blob, {{NameKind::keeper, "fetch"}});
  {
    const auto ledger = QuotaLedger::lock(**folders, stop_.get_token());
    if (has_blob(**folders, blob)) return true;
  }
  drop_deleted();
  return false;
}

// With the lock of eviction, so that the blob is not pinned or kept meanwhile. What it frees is corrected when the
// quota is reached.
void DiskBackend::remove_blob(const Digest& blob) {
  const auto folders = this->folders(Missing::fail);
  if (!folders) return temporary_.remove_blob(blob);
  if (const auto ledger = QuotaLedger::lock(**folders, stop_.get_token());
      ledger && !is_pinned(**folders, blob) && !is_kept(**folders, blob) && unlink_blob(**folders, blob))
    drop_deleted();
}

bool DiskBackend::release_blocks(const std::string& identity) {
  const auto folders = this->folders(Missing::fail);
  if (!folders) return false;
  const Digest name = sha256(identity);
  const auto ledger = QuotaLedger::lock(**folders, stop_.get_token());
  return ledger && !is_pinned(**folders, name) && !is_kept(**folders, name) &&
         weightfs::remove_blocks(**folders, name, BlockFile::Evict::unheld);
}

void DiskBackend::remove_blocks(const std::string& identity, BlockFile::Evict which) {
  if (const auto folders = this->folders(Missing::fail))
    std::ignore = weightfs::remove_blocks(**folders, sha256(identity), which);
}

Result<void> DiskBackend::put(const Digest& digest, std::string_view bytes) {
  const FoldersPtr folders = TRY(this->folders(Missing::create));
  if (find_in(*folders, {digest.hex(), "", digest}, bytes.size())) return {};
  const auto file = SideFile::create(folders, "text");
  if (file == nullptr) return failure(io_error(top_));
  if (!bytes.empty())
    TRY_VOID(disk_quota_.reserve(*folders, file->number(), bytes.size(), Eviction::allowed, stop_.get_token()));
  if (!write_fully(file->number(), 0, std::as_bytes(std::span(bytes))) || ::fsync(file->number()) != 0)
    return failure(io_error(top_));
  return give_name(*folders, digest, [&](const std::string& path) { return file->move(*folders->blobs, path); });
}

// Moves a file that is on the disk to the name of its blob. Another process may have removed the directory, and may be
// writing the same blob.
Result<void> DiskBackend::give_name(const Folders& folders, const Digest& digest, const Move& move) const {
  const std::string path = blob_file(digest);
  if (::mkdirat(folders.blobs->number(), path.substr(0, path.find('/')).c_str(), 0700) != 0 && errno != EEXIST)
    return failure(io_error(top_));
  if (move(path)) return {};
  if (errno == EBUSY) return failure(Code::resource, fmt::format("{}: another process does not release a lock", top_));
  if ((remove_if_no_file(folders, *folders.blobs, path) && move(path))) return {};
  if (errno == ENOENT) return failure(Code::resource, fmt::format("{}: removed by another process", top_));
  return failure(io_error(top_));
}

// The bytes are on the disk already (BlockFile::flush).
Result<BlobHandle> DiskBackend::publish_blocks(const BlockFilePtr& blocks, const BlobName& name, const Digest& digest) {
  const auto cache = this->folders(Missing::create);
  if (!cache && blocks->identity().empty()) return temporary_.publish_blocks(blocks, name, digest);
  if (blocks->identity().empty())
    return failure(Code::unsupported, "the server does not identify the version of the file");
  const FoldersPtr folders = TRY(cache);
  const Digest file = sha256(blocks->identity());
  ::mkdirat(folders->root->number(), kSumsFolder, 0700);  // a failure shows when the map is renamed
  // A pin of the ranges becomes one of the blob, which is never without a pin meanwhile.
  const bool pinned = is_pinned(*folders, file);
  if (pinned) TRY(add_pin(*folders, digest));
  // The link first: a dead link is harmless, an unreachable blob is not.
  if (!name.key.empty()) TRY_VOID(link(*folders, DigestOf::cached, name.key, digest));
  TRY_VOID(give_name(*folders, digest, [&](const std::string& to) {
    return blocks->publish_as(digest, *folders->root, blocks_file(file), *folders->blobs, to, sums_file(digest));
  }));
  const BlobHandle handle = TRY(open_published(*folders, name, blocks->files().data, digest));
  add_names(*folders, digest, names_of(*folders, file));
  if (pinned) std::ignore = remove_pin(*folders, file);
  remove_names(*folders, file);
  return handle;
}

// The published file is opened for reading only.
Result<BlobHandle> DiskBackend::open_published(const Folders& folders, const BlobName& name,
                                               const SharedDescriptor& file, const Digest& digest) {
  const std::string path = blob_file(digest);
  struct stat status {};
  if (::fstat(file->number(), &status) != 0) return failure(io_error(top_));
  auto reader = std::make_shared<const Descriptor>(open_blob(folders, digest));
  const bool is_published = *reader && is_same_file(*folders.blobs, path, reader->number()) &&
                            is_same_file(*folders.blobs, path, file->number());
  SharedDescriptor opened = is_published ? std::move(reader) : file;  // another process may have replaced it
  const auto size = static_cast<uint64_t>(status.st_size);
  CachedFiles files = {std::move(opened), open_map(folders, digest, size)};
  const BlobHandle handle{with_recheck(std::move(files), status.st_ino, size, digest, RecheckedFile::Origin::here),
                          digest};
  keep_open(name, handle);
  return handle;
}

// Reopened blobs share their check state, so each block is compared once per process.
FileRangePtr DiskBackend::with_recheck(CachedFiles files, ino_t inode, uint64_t size, const Digest& digest,
                                       RecheckedFile::Origin origin) {
  const std::scoped_lock lock(mutex_);
  if (checks_.size() >= kMaxChecks) checks_.clear();
  auto& check = checks_[{digest, inode}];
  if (check == nullptr || origin == RecheckedFile::Origin::here)
    check = std::make_shared<RecheckedFile>(keeper_of(digest, inode), digest, size, origin);
  return std::make_shared<FileRange>(std::move(files), size, check);
}

BlobKeeper DiskBackend::keeper_of(const Digest& digest, ino_t inode) {
  const auto self = weak_from_this();
  return {.compares_digest = compares_digests_,
          .stop = stop_.get_token(),
          .start_map = [self]() -> std::unique_ptr<MapWriter> {
            const auto backend = self.lock();
            const auto folders = backend ? backend->folders(Missing::fail) : failure(Code::not_found, "");
            return folders ? std::make_unique<MapWriter>(*folders) : nullptr;
          },
          .publish_map =
              [self, digest](MapWriter& map) {
                if (const auto backend = self.lock()) map.publish(digest, backend->disk_quota_);
              },
          .remove_damaged =
              [self, digest, inode](const std::string& what) {
                if (const auto backend = self.lock()) backend->remove_damaged(digest, inode, what);
              }};
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
