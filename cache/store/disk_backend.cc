#include "cache/store/disk_backend.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "base/text.h"

namespace weightfs {
namespace {

// Blobs that are open at the same time: as many as are read at once, and few of the 1024 descriptors of a process.
constexpr size_t kMostOpen = 128;

// A note is the text of a symbolic link (PATH_MAX).
constexpr size_t kLongestNote = 4000;

std::string note_name(const std::string& made) { return made + ".from"; }

// Checks of so many blobs are remembered: each takes 64 KiB for a blob of 1 GiB.
constexpr size_t kMostChecks = 1024;

// Each turn of begin() needs another process that got in between.
constexpr int kTurns = 1000;

RangePtr whole(OpenFilePtr file, uint64_t size) {
  return std::make_shared<Range>(std::move(file), std::vector<Range::Piece>{{0, size}});
}

class DirectoryDraft final : public Draft {
 public:
  DirectoryDraft(std::shared_ptr<Directory> directory, FoldersPtr folders, Name name, OpenFilePtr file,
                 std::string made, uint64_t left, const std::atomic<bool>& stop)
      : directory_(std::move(directory)),
        folders_(std::move(folders)),
        name_(std::move(name)),
        file_(std::move(file)),
        made_(std::move(made)),
        left_(left),
        stop_(stop),
        reserved_(left) {}

  ~DirectoryDraft() override {
    const OpenFile& making = *folders_->making;
    if (!over_ && is_at(making, made_, file_->fd())) {
      forget();  // first: from then on it is the next maker's
      ::unlinkat(making.fd(), made_.c_str(), 0);
    }
    release(file_->fd());
  }

  uint64_t left() const override { return left_; }

  std::string note() const override {
    std::array<char, kLongestNote + 1> text{};
    if (left_ == 0) return {};
    const ssize_t got = ::readlinkat(folders_->making->fd(), note_name(made_).c_str(), text.data(), text.size());
    return got > 0 ? std::string(text.data(), static_cast<size_t>(got)) : "";
  }

  // Another file takes its place, locked before it does: who follows the old one reads on in that. What it took stays
  // counted until all files are looked at: that is never less than what is used.
  Result<void> restart() override {
    forget();
    const OpenFile& making = *folders_->making;
    const std::string fresh = str(made_, ".", random_hex(8));
    const int fd = ::openat(making.fd(), fresh.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) return tl::unexpected(system_error("a blob cannot be made"));
    auto file = std::make_shared<OpenFile>(fd);
    if (!try_lock(fd) || ::renameat(making.fd(), fresh.c_str(), making.fd(), made_.c_str()) != 0) {
      const Error error = system_error("a blob cannot be made");
      ::unlinkat(making.fd(), fresh.c_str(), 0);
      return tl::unexpected(error);
    }
    file_ = std::move(file);
    left_ = reserved_ = 0;
    return {};
  }

  void take_note(const std::string& line) override {
    if (!name_.resumable) return;
    forget();
    if (!line.empty() && line.size() <= kLongestNote)
      std::ignore = ::symlinkat(line.c_str(), folders_->making->fd(), note_name(made_).c_str());
  }

  void leave(uint64_t written) override {
    // Also lets go of blocks that were allocated beyond.
    over_ = name_.resumable && written > 0 && ::ftruncate(file_->fd(), static_cast<off_t>(written)) == 0;
  }

  Result<void> reserve(uint64_t size, Others others) override {
    if (size <= reserved_) return {};
    TRY_VOID(directory_->room().take(*folders_, file_->fd(), reserved_, size, others, stop_));
    reserved_ = size;
    return {};
  }

  Result<void> write(uint64_t offset, std::span<const std::byte> bytes) override {
    if (write_fully(file_->fd(), offset, bytes)) return {};
    const bool full = is_full(errno);
    const Error error = system_error("a blob cannot be written");
    const bool freed = full && directory_->room().free_up(*folders_, bytes.size(), stop_);
    if (freed && write_fully(file_->fd(), offset, bytes)) return {};
    return tl::unexpected(error);
  }

  RangePtr range() const override { return whole(file_, INT64_MAX); }

  Result<Kept> publish(const Digest& digest, uint64_t size, BlockSums sums) override {
    if (reserved_ > size) std::ignore = ::ftruncate(file_->fd(), static_cast<off_t>(size));  // blocks beyond the end
    Kept kept = TRY(directory_->publish(*folders_, name_, file_, made_, digest, size, std::move(sums)));
    over_ = true;
    forget();
    return kept;
  }

 private:
  void forget() const {
    if (name_.resumable) ::unlinkat(folders_->making->fd(), note_name(made_).c_str(), 0);
  }

  std::shared_ptr<Directory> directory_;
  FoldersPtr folders_;
  Name name_;
  OpenFilePtr file_;
  std::string made_;  // its name in making/
  uint64_t left_;
  const std::atomic<bool>& stop_;
  uint64_t reserved_;
  bool over_ = false;  // it was published, or is left for the next
};

// The texts of notes about files elsewhere begin so: none of them leads to a blob.
constexpr std::string_view kElsewhere = "elsewhere ";

Name note_under(const std::string& key) { return {"", key, {}}; }

// A symbolic link comes with its text, at once (symlink(2)).
Result<void> link(const Folders& folders, const Name& name, const Digest& digest) {
  const OpenFile& index = *folders.index;
  const std::string place = index_link(name);
  if (digest_in_link(index, place) == digest) return {};
  ::unlinkat(index.fd(), place.c_str(), 0);
  if (::symlinkat(digest.hex().c_str(), index.fd(), place.c_str()) == 0 || errno == EEXIST) return {};
  return tl::unexpected(system_error("the cache's index"));
}

}  // namespace

Directory::Directory(const std::string& directory, std::optional<uint64_t> quota, Recheck recheck,
                     std::function<void(const std::string&)> log)
    : top_(directory),
      open_(kMostOpen),
      room_(quota, [this] { open_.drop_deleted(); }),
      suffix_(boot().empty() ? random_hex(8) : boot()),
      recheck_(recheck),
      log_(std::move(log)) {}

// Opened for each use, which takes microseconds: whoever removes the directory finds that a new one is made.
Result<FoldersPtr> Directory::folders(Missing missing) {
  FoldersPtr folders = TRY(open_folders(top_, missing));
  std::call_once(swept_, [&] { sweep(*folders); });
  return folders;
}

Kept Directory::find(const Name& name, std::optional<uint64_t> size) {
  const auto folders = this->folders(Missing::fail);
  return folders ? find_in(**folders, name, size) : Kept{};
}

// Whose recipe tells another size does not mean this blob: any container may name a digest. A file that was cut is
// replaced when its blob was made again.
Kept Directory::find_in(const Folders& folders, const Name& name, std::optional<uint64_t> size) {
  const auto digest = name.digest || name.key.empty() ? name.digest : digest_in_link(*folders.index, index_link(name));
  if (!digest) return {};
  const int fd = ::openat(folders.blobs->fd(), blob_file(*digest).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return {};
  auto file = std::make_shared<OpenFile>(fd);
  struct stat opened {};
  if (::fstat(fd, &opened) != 0 || !S_ISREG(opened.st_mode)) return {};
  if (size && static_cast<uint64_t>(opened.st_size) != *size) return {};
  // Used now: eviction goes by this time. On a read-only file system it stays as it is.
  const timespec times[2] = {{0, UTIME_OMIT}, {0, UTIME_NOW}};
  ::futimens(fd, times);
  const Kept kept{checked(std::move(file), opened, *digest), *digest};
  open_.add(name.text, kept);
  return kept;
}

std::string Directory::made_name(const Name& name) const {
  return name.resumable ? part_file(*name.digest) : str(name.text, ".", suffix_);
}

std::optional<Digest> Directory::noted(Of of, const std::string& key) {
  const auto folders = this->folders(Missing::fail);
  if (!folders) return std::nullopt;
  const OpenFile& index = *(*folders)->index;
  if (of == Of::kept) return digest_in_link(index, index_link(note_under(key)));
  std::array<char, 128> text{};
  const ssize_t got = ::readlinkat(index.fd(), index_link(note_under(key)).c_str(), text.data(), text.size());
  const std::string_view note(text.data(), got > 0 ? static_cast<size_t>(got) : 0);
  return note.starts_with(kElsewhere) ? digest_of_hex(note.substr(kElsewhere.size())) : std::nullopt;
}

Result<void> Directory::note(Of of, const std::string& key, const Digest& digest) {
  const FoldersPtr folders = TRY(this->folders(Missing::make));
  TRY_VOID(room_.take_link(*folders));
  if (of == Of::kept) return link(*folders, note_under(key), digest);
  const std::string place = index_link(note_under(key));
  const std::string text = str(kElsewhere, digest.hex());
  ::unlinkat(folders->index->fd(), place.c_str(), 0);
  if (::symlinkat(text.c_str(), folders->index->fd(), place.c_str()) == 0 || errno == EEXIST) return {};
  return tl::unexpected(system_error("the cache's index"));
}

Result<Begun> Directory::begin(const Name& name, std::optional<uint64_t> size, const std::atomic<bool>& stop) {
  for (int turn = 0; turn < kTurns; ++turn) {
    auto begun = TRY(try_begin(name, size, stop));
    if (begun) return std::move(*begun);
  }
  return failure(Code::resource, str(top_, ": changes all the time"));
}

// Nothing when another process got in between.
Result<std::optional<Begun>> Directory::try_begin(const Name& name, std::optional<uint64_t> size,
                                                  const std::atomic<bool>& stop) {
  const FoldersPtr folders = TRY(this->folders(Missing::make));
  if (auto kept = find_in(*folders, name, size)) return Begun{std::move(kept), nullptr, nullptr, 0};
  const OpenFile& making = *folders->making;
  const std::string made = made_name(name);
  const int fd = ::openat(making.fd(), made.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return tl::unexpected(system_error(top_));
  auto file = std::make_shared<OpenFile>(fd);
  const bool locked = try_lock(fd);
  if (!locked && errno != EWOULDBLOCK) return tl::unexpected(system_error(top_));
  struct stat opened {};
  if (::fstat(fd, &opened) != 0) return tl::unexpected(system_error(top_));
  const auto there = static_cast<uint64_t>(opened.st_size);
  if (!locked) return Begun{{}, nullptr, whole(std::move(file), there), there};
  if (!is_at(making, made, fd)) return std::nullopt;
  if (there > 0 && !name.resumable) {
    ::unlinkat(making.fd(), made.c_str(), 0);
    return std::nullopt;
  }
  auto draft = std::make_unique<DirectoryDraft>(shared_from_this(), folders, name, std::move(file), made, there, stop);
  // Whoever held the lock before may have published it since.
  if (auto kept = find_in(*folders, name, size)) return Begun{std::move(kept), nullptr, nullptr, 0};
  return Begun{{}, std::move(draft), nullptr, 0};
}

Result<Kept> Directory::publish(const Folders& folders, const Name& name, const OpenFilePtr& file,
                                const std::string& made, const Digest& digest, uint64_t size, BlockSums sums) {
  if (::fsync(file->fd()) != 0) return tl::unexpected(system_error(top_));
  const std::string place = blob_file(digest);
  const int blobs = folders.blobs->fd();
  if (::mkdirat(blobs, place.substr(0, place.find('/')).c_str(), 0700) != 0 && errno != EEXIST)
    return tl::unexpected(system_error(top_));
  // The link first: one that leads nowhere is harmless, a blob that nobody finds is not.
  if (!name.key.empty()) TRY_VOID(link(folders, name, digest));
  // Somebody may have cleared the directory away, and somebody else may be making the same blob there.
  const OpenFile& making = *folders.making;
  if (!is_at(making, made, file->fd())) return failure(Code::resource, str(top_, ": was cleared"));
  if (::renameat(making.fd(), made.c_str(), blobs, place.c_str()) != 0) return tl::unexpected(system_error(top_));
  note_sums(digest, sums);
  struct stat opened {};
  if (::fstat(file->fd(), &opened) != 0) return tl::unexpected(system_error(top_));
  opened.st_size = static_cast<off_t>(size);
  const Kept kept{checked(file, opened, digest, std::move(sums)), digest};
  open_.add(name.text, kept);
  return kept;
}

// A blob that is opened again shares its first opening's checks: a process compares each block once.
RangePtr Directory::checked(OpenFilePtr file, const struct stat& opened, const Digest& digest,
                            std::optional<BlockSums> sums) {
  const auto size = static_cast<uint64_t>(opened.st_size);
  if (recheck_ == Recheck::off) return whole(std::move(file), size);
  const std::scoped_lock lock(mutex_);
  if (checks_.size() >= kMostChecks) checks_.clear();
  Check& check = checks_[digest.hex()];
  if (check.file == nullptr || check.inode != opened.st_ino || sums) {
    const std::weak_ptr<Directory> weak = weak_from_this();
    RecheckedFile::Hooks hooks;
    hooks.load = [weak, digest, size]() -> std::optional<BlockSums> {
      const auto self = weak.lock();
      const auto folders = self && size > BlockSums::kWorthAFile ? self->folders(Missing::fail) : Result<FoldersPtr>();
      return folders && *folders ? read_sums(**folders, digest, size) : std::nullopt;
    };
    hooks.note = [weak, digest](const BlockSums& computed) {
      if (const auto self = weak.lock()) self->note_sums(digest, computed);
    };
    hooks.damaged = [weak, digest, inode = opened.st_ino](const std::string& what) {
      if (const auto self = weak.lock()) self->discard(digest, inode, what);
    };
    hooks.stopped = [weak] {
      const auto self = weak.lock();
      return self != nullptr && self->stopped_;
    };
    check = {opened.st_ino, std::make_shared<RecheckedFile>(digest, size, recheck_, std::move(hooks), std::move(sums))};
  }
  return std::make_shared<Range>(std::move(file), size, check.file);
}

// After the blob has its name: checksums without a blob are removed.
void Directory::note_sums(const Digest& digest, const BlockSums& sums) {
  if (sums.size() <= BlockSums::kWorthAFile) return;
  const auto folders = this->folders(Missing::fail);
  if (folders && room_.take_extra(**folders, BlockSums::encoded_size(sums.size()))) write_sums(**folders, digest, sums);
}

// What has the name by now may be another file: that one stays.
void Directory::discard(const Digest& digest, ino_t inode, const std::string& what) {
  struct stat there {};
  const auto folders = this->folders(Missing::fail);
  if (!folders) return;
  const bool is_there = ::fstatat((*folders)->blobs->fd(), blob_file(digest).c_str(), &there, AT_SYMLINK_NOFOLLOW) == 0;
  if (!is_there || there.st_ino != inode) return;
  const bool removed = unlink_blob(**folders, digest);
  const Error error = system_error("it cannot be removed");
  {
    const std::scoped_lock lock(mutex_);
    if (!removed && !damaged_.insert(digest.hex()).second) return;
    checks_.erase(digest.hex());
  }
  open_.drop_deleted();
  if (log_) log_(str("cached blob ", digest.hex(), ": ", what, "; ", removed ? "removed" : error.message));
}

}  // namespace weightfs
