#include "base/files/file_source.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <ctime>
#include <mutex>

#include "base/cancel.h"
#include "base/files/content_mark.h"
#include "base/files/file_io.h"
#include "base/files/leaf.h"
#include "base/files/no_passthrough.h"
#include "base/files/open_files.h"
#include "base/files/private_file.h"
#include "base/os/system_error.h"

namespace weightfs {
namespace {

// Whether the file has all bytes of the pieces.
Result<bool> pread_all(int fd, std::span<const Piece> pieces) {
  for (const Piece& piece : pieces)
    if (TRY(read_up_to_end(fd, piece.offset, piece.out)) != piece.out.size()) return false;
  return true;
}

Result<Descriptor> duplicate(int fd) {
  Descriptor copy(::fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
  if (!copy) return failure(io_error("descriptor"));
  return copy;
}

// Explanations of a new change time other than a write: the path appeared or disappeared, or the attributes differ.
struct Attributes {
  bool at_path;
  nlink_t links;
  mode_t mode;
  uid_t user;
  gid_t group;
  bool operator==(const Attributes&) const = default;
};

Attributes attributes_of(const struct stat& file, bool is_at_path) {
  return {
      .at_path = is_at_path, .links = file.st_nlink, .mode = file.st_mode, .user = file.st_uid, .group = file.st_gid};
}

// Costs no system call, and advances every few milliseconds.
std::chrono::nanoseconds coarse_clock() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

bool is_same_time(const timespec& a, const timespec& b) { return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec; }

// A file that is watched for change. Its bytes are read by pread(2): access to a mapping of a file that was cut would
// end the process. Mapped bytes are only for system calls.
class FileSource final : public Leaf, public std::enable_shared_from_this<FileSource> {
 public:
  FileSource(Descriptor fd, const struct stat& opened, ConfinedDirectoryPtr directory, std::string name,
             ConfinedDirectory::Links links)
      : opened_(opened),
        directory_(std::move(directory)),
        name_(std::move(name)),
        links_(links),
        accepted_(attributes_of(opened, true)),
        accepted_change_(opened.st_ctim) {
    keep(new_file(std::move(fd)));
  }
  ~FileSource() override {
    if (const auto file = file_.lock()) recent_files().remove(file);
  }
  FileSource(const FileSource&) = delete;
  FileSource& operator=(const FileSource&) = delete;

  uint64_t size() const override { return opened_.size; }
  uint64_t occupied() const override { return opened_.occupied; }
  std::optional<Extent> extent() const override {
    const auto file = open();
    return file ? std::optional(Extent{(*file)->number(), 0, size(), *file}) : std::nullopt;
  }
  bool is_ready() const override { return true; }
  std::string identity() const override;
  std::shared_ptr<const void> keep_cached() const override {
    if (directory_ == nullptr) return nullptr;
    return open().value_or(nullptr);
  }

  Result<Descriptor> open_whole_file() const override {
    if (changed_.load(std::memory_order_relaxed)) return has_changed();
    const SharedFilePtr file = TRY(open());
    const auto now = status_if_unchanged(*file);
    if (!now) return has_changed();
    if (!is_write_protected(file->number(), *now)) return failure(NoPassthrough::writable);
    return duplicate(file->number());
  }

  Result<std::optional<MappedBytes>> map(uint64_t offset, size_t size) const override {
    if (changed_.load(std::memory_order_relaxed)) return has_changed();
    const SharedFilePtr file = TRY(open());
    auto mapped = map_cached(*file, {offset, offset + bytes_inside(opened_.size, offset, size)});
    if (!mapped) return std::nullopt;  // to be read, and compared then
    const auto now = status_if_unchanged(*file);
    if (!now) return has_changed();
    if (!is_write_protected(file->number(), *now)) return std::nullopt;
    return mapped;
  }

  void advise(ByteRange range, Advice advice) const override {
    const ByteRange inside = {std::min(range.from, size()), std::min(range.to, size())};
    if (inside.from >= inside.to || changed_.load(std::memory_order_relaxed)) return;
    if (const auto file = open()) advise_about(**file, inside, advice);
  }

  Result<size_t> read(uint64_t offset, std::span<std::byte> out) const override {
    const Piece piece{offset, out.first(bytes_inside(size(), offset, out.size()))};
    TRY_VOID(read_inside(nullptr, {&piece, 1}));
    return piece.out.size();
  }

  Result<void> read_pieces(std::span<const Piece> pieces) const override { return read_inside(nullptr, pieces); }

  SourcePtr verified_file() const override;

  // Reads pieces that are inside of the file, from `held`, or if that is null from a file that is found or opened. The
  // check follows the copies: a writer updates the times before the bytes, so bytes copied before the times changed are
  // all old bytes.
  Result<void> read_inside(const SharedFile* held, std::span<const Piece> pieces) const {
    if (changed_.load(std::memory_order_relaxed)) return has_changed();
    if (is_cancelled()) return failure(Code::resource, fmt::format("{}: cancelled", path()));
    const SharedFilePtr found = held == nullptr ? TRY(open()) : nullptr;
    const SharedFile& file = held == nullptr ? *found : *held;
    const auto whole = pread_all(file.number(), pieces);
    const bool is_unchanged = status_if_unchanged(file).has_value();
    if (whole && *whole && is_unchanged) return {};
    if (!whole && is_unchanged) return failure(Code::io, fmt::format("{}: {}", path(), whole.error().message));
    changed_ = true;
    return has_changed();
  }

 private:
  std::string path() const { return directory_ == nullptr ? name_ : directory_->path_of(name_); }  // for messages

  tl::unexpected<Error> has_changed() const {
    return changed_file(fmt::format("{}: the file was changed or replaced after it was opened", path()));
  }

  // Without make_shared, because file_ would keep its memory.
  static SharedFilePtr new_file(Descriptor descriptor) { return SharedFilePtr(new SharedFile(std::move(descriptor))); }

  // A file that can be opened again is closed when others are used, unless a caller holds it.
  void keep(SharedFilePtr file) const {
    file_ = file;
    file->last_use = coarse_clock();
    if (directory_ != nullptr)
      recent_files().add(std::move(file));
    else
      kept_ = std::move(file);
  }

  Result<SharedFilePtr> open() const {
    const std::scoped_lock lock(mutex_);
    if (SharedFilePtr file = file_.lock()) {
      file->last_use = coarse_clock();
      return file;
    }
    auto opened = directory_->open(name_, OpenFor::read, links_);
    if (!opened && opened.error().code == Code::not_found) opened.error().code = Code::io;
    SharedFilePtr file = new_file(TRY(std::move(opened)).descriptor);
    if (!is_as_closed(*file)) {
      changed_ = true;
      return has_changed();
    }
    keep(file);
    return file;
  }

  // Call with the lock. While it is closed nothing explains a new change time: another file can have got the number of
  // a removed one.
  bool is_as_closed(const SharedFile& file) const {
    struct stat open {};
    return ::fstat(file.number(), &open) == 0 && is_same_file(open) && is_same_time(open.st_ctim, accepted_change_);
  }

  bool is_same_file(const struct stat& now) const {
    return now.st_ino == opened_.inode && now.st_dev == opened_.device &&
           static_cast<uint64_t>(now.st_size) == opened_.size && is_same_time(now.st_mtim, opened_.modified);
  }

  // The status of the open file. Remembers a change.
  std::optional<struct stat> status_if_unchanged(const SharedFile& file) const {
    struct stat open {};
    if (::fstat(file.number(), &open) == 0 && is_as_opened(open)) return open;
    changed_ = true;
    return std::nullopt;
  }

  // A removed path is not a change: the open file still has the bytes that were opened. Any write, rename and removal
  // of the file changes its times. Only another directory, link or mount on the path does not, and cannot change the
  // bytes of the open file, so the path is resolved less often than the file is examined.
  bool is_as_opened(const struct stat& open) const {
    if (!is_same_file(open)) return false;
    const auto now = coarse_clock();
    if (now < next_path_check_.load(std::memory_order_relaxed) && is_same_time(open.st_ctim, opened_.changed))
      return true;
    if (!is_unchanged_at_path(open)) return false;
    next_path_check_.store(now + kPathCheckInterval, std::memory_order_relaxed);
    return true;
  }

  bool is_unchanged_at_path(const struct stat& open) const {
    struct stat there {};
    const int directory = directory_ == nullptr ? AT_FDCWD : directory_->number();
    const bool at_path = ::fstatat(directory, name_.c_str(), &there, 0) == 0;
    if (at_path && !is_same_file(there)) return false;
    const bool untouched =
        at_path && is_same_time(open.st_ctim, opened_.changed) && is_same_time(there.st_ctim, opened_.changed);
    if (untouched) return true;
    // The later of two observations of the inode.
    return accepts(at_path ? there : open, at_path);
  }

  // A user who may write to the file can restore its modification time, and then rename or chmod it to explain the new
  // change time. So explanations are accepted only if only this user and root may write.
  bool accepts(const struct stat& now, bool at_path) const {
    const Attributes attributes = attributes_of(now, at_path);
    const std::scoped_lock lock(mutex_);
    const bool as_before = is_same_time(now.st_ctim, accepted_change_);
    const bool explained = attributes != accepted_;
    if (!as_before && !(explained && is_private(opened_.mode, opened_.user, opened_.group) && is_private_file(now)))
      return false;
    accepted_ = attributes;
    accepted_change_ = now.st_ctim;
    return true;
  }

  static constexpr std::chrono::milliseconds kPathCheckInterval{100};

  FileStatus opened_;
  ConfinedDirectoryPtr directory_;  // of its name; null for the working directory
  std::string name_;
  ConfinedDirectory::Links links_;
  mutable std::atomic<bool> changed_ = false;
  mutable std::atomic<std::chrono::nanoseconds> next_path_check_{};
  mutable std::mutex mutex_;  // guards the rest
  mutable std::weak_ptr<const SharedFile> file_;
  mutable SharedFilePtr kept_;   // if it cannot be opened again
  mutable std::string mark_;     // of its content; empty: not read yet
  mutable Attributes accepted_;  // as the file was when its change time was accepted last
  mutable timespec accepted_change_;
};

// A file that stays open, so its reads take no lock.
class HeldFile final : public Source {
 public:
  HeldFile(std::shared_ptr<const FileSource> source, SharedFilePtr file)
      : source_(std::move(source)), file_(std::move(file)) {}

  uint64_t size() const override { return source_->size(); }
  Result<Place> place(uint64_t offset, Opens opens) const override { return source_->place(offset, opens); }
  Result<size_t> read(uint64_t offset, std::span<std::byte> out) const override {
    const Piece piece{offset, out.first(bytes_inside(size(), offset, out.size()))};
    TRY_VOID(source_->read_inside(file_.get(), {&piece, 1}));
    return piece.out.size();
  }

 private:
  const std::shared_ptr<const FileSource> source_;
  const SharedFilePtr file_;
};

// Empty if the ends of the file cannot be read, or are not those of the version that was opened.
std::string FileSource::identity() const {
  {
    const std::scoped_lock lock(mutex_);
    if (!mark_.empty()) return fmt::format("{} {}", opened_.identity(), mark_);
  }
  if (changed_.load(std::memory_order_relaxed)) return {};
  const auto file = open();
  const auto mark = file ? content_mark((*file)->number(), size()) : tl::unexpected(file.error());
  if (!mark || !status_if_unchanged(**file)) return {};
  const std::scoped_lock lock(mutex_);
  mark_ = *mark;
  return fmt::format("{} {}", opened_.identity(), mark_);
}

SourcePtr FileSource::verified_file() const {
  auto file = open();
  return file ? std::make_shared<HeldFile>(shared_from_this(), std::move(*file)) : nullptr;
}

// As open_file(), of `file`, which was opened as `name` in `directory`, or where that is null by its path `name`.
Result<SourcePtr> source_of_file(Descriptor file, ConfinedDirectoryPtr directory, std::string name,
                                 ConfinedDirectory::Links links) {
  struct stat opened {};
  const bool known = ::fstat(file.number(), &opened) == 0;
  if (!known || !S_ISREG(opened.st_mode))
    return failure(Code::io, fmt::format("{}{}", directory == nullptr ? name : directory->path_of(name),
                                         known ? ": not a regular file" : ": cannot be examined"));
  return std::make_shared<FileSource>(std::move(file), opened, std::move(directory), std::move(name), links);
}

}  // namespace

Result<SourcePtr> open_file(const std::string& path) {
  // O_NONBLOCK: a FIFO or a device must be refused, not waited for; it means nothing on a regular file.
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file) return failure(errno_code(errno), fmt::format("{}: {}", path, errno_text(errno)));
  return source_of_file(std::move(file), nullptr, path, ConfinedDirectory::Links::by_rules);
}

Result<SourcePtr> open_file(const ConfinedDirectoryPtr& directory, const std::string& name,
                            ConfinedDirectory::Links links) {
  auto opened = TRY(directory->open(name, OpenFor::read, links));
  return source_of_file(std::move(opened.descriptor), directory, name, links);
}

// A file system that does not count blocks reports 0.
FileStatus::FileStatus(const struct stat& file)
    : device(file.st_dev),
      inode(file.st_ino),
      size(static_cast<uint64_t>(file.st_size)),
      occupied(file.st_blocks == 0 ? size : std::min(size, static_cast<uint64_t>(file.st_blocks) * 512)),
      modified(file.st_mtim),
      changed(file.st_ctim),
      mode(file.st_mode),
      user(file.st_uid),
      group(file.st_gid) {}

std::string FileStatus::identity() const {
  const auto time = [](const timespec& t) { return fmt::format("{}.{}", t.tv_sec, t.tv_nsec); };
  return fmt::format("file {}:{} {} {} {}", device, inode, size, time(modified), time(changed));
}

}  // namespace weightfs
