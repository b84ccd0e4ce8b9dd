#include "base/source.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <grp.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <ctime>
#include <mutex>

#include "base/cancel.h"
#include "base/download_scope.h"
#include "base/os/open_files.h"
#include "base/os/opened_file.h"
#include "base/os/system_error.h"
#include "base/text.h"

namespace weightfs {
namespace {

// The number of bytes of `wanted` before the end; 0 at and after the end.
size_t clamp(uint64_t size, uint64_t offset, size_t wanted) {
  return offset >= size ? 0 : static_cast<size_t>(std::min<uint64_t>(wanted, size - offset));
}

size_t clamp(uint64_t size, uint64_t offset, std::span<std::byte> out) { return clamp(size, offset, out.size()); }

// pread until `out` is full or the file ends.
Result<size_t> pread_fully(int fd, uint64_t offset, std::span<std::byte> out) {
  size_t done = 0;
  while (done < out.size()) {
    const ssize_t got = ::pread(fd, out.data() + done, out.size() - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return failure(Code::io, errno_text(errno));
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  return done;
}

// Whether the file has all bytes of the pieces.
Result<bool> pread_all(int fd, std::span<const Piece> pieces) {
  for (const Piece& piece : pieces)
    if (TRY(pread_fully(fd, piece.offset, piece.out)) != piece.out.size()) return false;
  return true;
}

tl::unexpected<Error> ends_too_early(uint64_t size, uint64_t offset, uint64_t needed) {
  return failure(Code::corrupt, fmt::format("ends at byte {}, {} bytes needed at {}", size, needed, offset));
}

Result<void> check_inside(const Source& source, const Piece& piece) {
  if (clamp(source.size(), piece.offset, piece.out) == piece.out.size()) return {};
  return ends_too_early(source.size(), piece.offset, piece.out.size());
}

// The private group of this user (with the user's name, and without other members), which many systems create per user;
// -1 if there is none. Files may be writable by it. Looked up once.
gid_t private_group() {
  static const gid_t group = []() -> gid_t {
    std::array<char, 16384> user_text{};
    std::array<char, 16384> group_text{};
    passwd user{};
    struct group its {};
    passwd* found = nullptr;
    struct group* found_group = nullptr;
    constexpr auto kNone = static_cast<gid_t>(-1);
    if (::getpwuid_r(::geteuid(), &user, user_text.data(), user_text.size(), &found) != 0 || found == nullptr)
      return kNone;
    if (::getgrgid_r(user.pw_gid, &its, group_text.data(), group_text.size(), &found_group) != 0 ||
        found_group == nullptr)
      return kNone;
    bool others = std::string_view(its.gr_name) != user.pw_name;
    for (char** member = its.gr_mem; *member != nullptr; ++member)
      others = others || std::string_view(*member) != user.pw_name;
    return others ? kNone : user.pw_gid;
  }();
  return group;
}

// See is_private_file().
bool is_private(mode_t mode, uid_t user, gid_t group) {
  if (user != 0 && user != ::geteuid()) return false;
  if ((mode & S_IWOTH) != 0) return false;
  return (mode & S_IWGRP) == 0 || group == 0 || group == private_group();
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
class FileSource final : public Source {
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
  bool is_local() const override { return true; }
  std::string identity() const override { return opened_.identity(); }
  std::shared_ptr<const void> hold() const override {
    if (directory_ == nullptr) return nullptr;
    return open().value_or(nullptr);
  }

  Result<Descriptor> open_whole_file() const override {
    if (changed_.load(std::memory_order_relaxed)) return has_changed();
    const OpenFilePtr file = TRY(open());
    const auto now = status_if_unchanged(*file);
    if (!now) return has_changed();
    if (!is_write_protected(file->number(), *now)) return failure(Code::unsupported, "file is writable");
    return duplicate(file->number());
  }

  Result<std::optional<MappedBytes>> map(uint64_t offset, size_t size) const override {
    if (changed_.load(std::memory_order_relaxed)) return has_changed();
    const OpenFilePtr file = TRY(open());
    auto mapped = map_cached(*file, {offset, offset + clamp(opened_.size, offset, size)});
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
    const Piece piece{offset, out.first(clamp(size(), offset, out))};
    TRY_VOID(read_inside({&piece, 1}));
    return piece.out.size();
  }

  Result<void> read_pieces(std::span<const Piece> pieces) const override {
    for (const Piece& piece : pieces) TRY_VOID(check_inside(*this, piece));
    return read_inside(pieces);
  }

 private:
  std::string path() const { return directory_ == nullptr ? name_ : directory_->path_of(name_); }  // for messages

  tl::unexpected<Error> has_changed() const {
    return changed_file(fmt::format("{}: the file was changed or replaced after it was opened", path()));
  }

  // Reads pieces that are inside of the file. The check follows the copies: a writer updates the times before the
  // bytes, so bytes copied before the times changed are all old bytes.
  Result<void> read_inside(std::span<const Piece> pieces) const {
    if (changed_.load(std::memory_order_relaxed)) return has_changed();
    if (is_cancelled()) return failure(Code::resource, fmt::format("{}: cancelled", path()));
    const OpenFilePtr file = TRY(open());
    const auto whole = pread_all(file->number(), pieces);
    const bool is_unchanged = status_if_unchanged(*file).has_value();
    if (whole && *whole && is_unchanged) return {};
    if (!whole && is_unchanged) return failure(Code::io, fmt::format("{}: {}", path(), whole.error().message));
    changed_ = true;
    return has_changed();
  }

  // Without make_shared, because file_ would keep its memory.
  static OpenFilePtr new_file(Descriptor descriptor) { return OpenFilePtr(new OpenFile(std::move(descriptor))); }

  // A file that can be opened again is closed when others are used, unless a caller holds it.
  void keep(OpenFilePtr file) const {
    file_ = file;
    file->last_use = coarse_clock();
    if (directory_ != nullptr)
      recent_files().add(std::move(file));
    else
      kept_ = std::move(file);
  }

  Result<OpenFilePtr> open() const {
    const std::scoped_lock lock(mutex_);
    if (OpenFilePtr file = file_.lock()) {
      file->last_use = coarse_clock();
      return file;
    }
    auto opened = directory_->open(name_, OpenFor::read, links_);
    if (!opened && opened.error().code == Code::not_found) opened.error().code = Code::io;
    OpenFilePtr file = new_file(TRY(std::move(opened)).descriptor);
    if (!is_as_closed(*file)) {
      changed_ = true;
      return has_changed();
    }
    keep(file);
    return file;
  }

  // Call with the lock. While it is closed nothing explains a new change time: another file can have got the number of
  // a removed one.
  bool is_as_closed(const OpenFile& file) const {
    struct stat open {};
    return ::fstat(file.number(), &open) == 0 && is_same_file(open) && is_same_time(open.st_ctim, accepted_change_);
  }

  bool is_same_file(const struct stat& now) const {
    return now.st_ino == opened_.inode && now.st_dev == opened_.device &&
           static_cast<uint64_t>(now.st_size) == opened_.size && is_same_time(now.st_mtim, opened_.modified);
  }

  // The status of the open file. Remembers a change.
  std::optional<struct stat> status_if_unchanged(const OpenFile& file) const {
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
  mutable std::weak_ptr<const OpenFile> file_;
  mutable OpenFilePtr kept_;     // if it cannot be opened again
  mutable Attributes accepted_;  // as the file was when its change time was accepted last
  mutable timespec accepted_change_;
};

class MemorySource final : public Source {
 public:
  explicit MemorySource(std::string bytes) : bytes_(std::move(bytes)) {}
  uint64_t size() const override { return bytes_.size(); }
  bool is_local() const override { return true; }
  Result<size_t> read(uint64_t offset, std::span<std::byte> out) const override {
    const size_t count = clamp(size(), offset, out);
    if (count > 0) std::memcpy(out.data(), bytes_.data() + offset, count);
    return count;
  }

 private:
  std::string bytes_;
};

class ConcatSource final : public Source {
 public:
  explicit ConcatSource(std::vector<SourcePtr> parts) : parts_(std::move(parts)) {
    for (const auto& part : parts_) ends_.push_back(size() + part->size());
  }
  uint64_t size() const override { return ends_.empty() ? 0 : ends_.back(); }
  Result<size_t> read(uint64_t offset, std::span<std::byte> out) const override {
    return read_parts(offset, out, [](const Source& part, uint64_t, uint64_t within, std::span<std::byte> wanted) {
      return read_exact(part, within, wanted);
    });
  }
  Result<size_t> read_ahead(uint64_t offset, std::span<std::byte> out, ByteRange expected) const override {
    const auto read_part = [&](const Source& part, uint64_t begin, uint64_t within,
                               std::span<std::byte> wanted) -> Result<void> {
      if (TRY(part.read_ahead(within, wanted, in_part(part, begin, expected))) < wanted.size())
        return failure(Code::corrupt, "ends too early");
      return {};
    };
    return read_parts(offset, out, read_part);
  }
  Result<void> fetch(ByteRange range) const override {
    for (size_t i = 0; i < parts_.size(); ++i) {
      const ByteRange inside = in_part(*parts_[i], ends_[i] - parts_[i]->size(), range);
      if (inside.from < inside.to) TRY_VOID(parts_[i]->fetch(inside));
    }
    return {};
  }
  Result<CachedBytes> cached(ByteRange range) const override {
    CachedBytes sum;
    for (size_t i = 0; i < parts_.size(); ++i) {
      const ByteRange inside = in_part(*parts_[i], ends_[i] - parts_[i]->size(), range);
      if (inside.from < inside.to) sum += TRY(parts_[i]->cached(inside));
    }
    return sum;
  }
  bool is_local() const override {
    return std::all_of(parts_.begin(), parts_.end(), [](const SourcePtr& part) { return part->is_local(); });
  }
  // Maps within one part: an empty range at the end is in the last one.
  Result<std::optional<MappedBytes>> map(uint64_t offset, size_t size) const override {
    if (parts_.empty()) return std::nullopt;
    const auto after = std::upper_bound(ends_.begin(), ends_.end(), offset);
    const auto end = std::min(after, std::prev(ends_.end()));
    const SourcePtr& part = parts_[static_cast<size_t>(end - ends_.begin())];
    const size_t count = clamp(this->size(), offset, size);
    if (count > 0 && offset + count > *end) return std::nullopt;
    return part->map(offset - (*end - part->size()), count);
  }
  void advise(ByteRange range, Advice advice) const override {
    for (size_t i = 0; i < parts_.size(); ++i) {
      const ByteRange inside = in_part(*parts_[i], ends_[i] - parts_[i]->size(), range);
      if (inside.from < inside.to) parts_[i]->advise(inside, advice);
    }
  }
  std::shared_ptr<const void> hold() const override {
    auto held = std::make_shared<std::vector<std::shared_ptr<const void>>>();
    for (const auto& part : parts_)
      if (auto one = part->hold()) held->push_back(std::move(one));
    return held->empty() ? nullptr : held;
  }
  VerifiedBy verification() const override {
    auto worst = VerifiedBy::unknown;
    for (const SourcePtr& part : parts_) worst = worse(worst, part->verification());
    return worst;
  }
  SourcePtr direct() const override {
    std::vector<SourcePtr> direct;  // empty until there is one
    for (size_t i = 0; i < parts_.size(); ++i) {
      SourcePtr part = parts_[i]->direct();
      if (part == nullptr) continue;
      if (direct.empty()) direct = parts_;
      direct[i] = std::move(part);
    }
    return direct.empty() ? nullptr : concat(std::move(direct));
  }

 private:
  // The bytes of the range that are in the part, which begins at `begin`.
  static ByteRange in_part(const Source& part, uint64_t begin, ByteRange range) {
    const uint64_t from = std::clamp(range.from, begin, begin + part.size());
    return {from - begin, std::clamp(range.to, from, begin + part.size()) - begin};
  }

  // Calls `read_part` with each part that has bytes of the range, the part's offset, and the offset in the part.
  template <class ReadPart>
  Result<size_t> read_parts(uint64_t offset, std::span<std::byte> out, ReadPart read_part) const {
    size_t done = 0;
    auto end = std::upper_bound(ends_.begin(), ends_.end(), offset);
    for (; done < out.size() && end != ends_.end(); ++end) {
      const Source& part = *parts_[static_cast<size_t>(end - ends_.begin())];
      const uint64_t begin = *end - part.size();
      const uint64_t within = offset + done - begin;
      const auto wanted = out.subspan(done, clamp(part.size(), within, out.subspan(done)));
      TRY_VOID(read_part(part, begin, within, wanted));
      done += wanted.size();
    }
    return done;
  }

  std::vector<SourcePtr> parts_;
  std::vector<uint64_t> ends_;
};

class LazySource final : public Source {
 public:
  static constexpr uint64_t kMaxDeclared = 256 << 20;

  LazySource(uint64_t size, Later<SourcePtr> made) : size_(size), made_(std::move(made)) {}
  uint64_t size() const override { return size_; }
  // The size is only declared until the source is made.
  uint64_t occupied() const override {
    const auto source = made_.peek();
    return source ? (*source)->occupied() : std::min(size_, kMaxDeclared);
  }
  Result<size_t> read(uint64_t offset, std::span<std::byte> out) const override {
    return TRY(made())->read(offset, out);
  }
  Result<size_t> read_ahead(uint64_t offset, std::span<std::byte> out, ByteRange expected) const override {
    return TRY(made())->read_ahead(offset, out, expected);
  }
  Result<void> fetch(ByteRange range) const override { return TRY(made())->fetch(range); }
  Result<CachedBytes> cached(ByteRange range) const override { return TRY(made())->cached(range); }
  Result<Descriptor> open_whole_file() const override {
    const auto source = made_.peek();
    if (!source || (*source)->size() != size_) return Source::open_whole_file();
    return (*source)->open_whole_file();
  }
  std::optional<Extent> extent() const override {
    const auto source = made_.peek();
    return source && (*source)->size() == size_ ? (*source)->extent() : std::nullopt;
  }
  bool is_local() const override {
    const auto source = made_.peek();
    return source && (*source)->is_local();
  }
  Result<std::optional<MappedBytes>> map(uint64_t offset, size_t size) const override {
    return TRY(made())->map(offset, size);
  }
  void advise(ByteRange range, Advice advice) const override {
    if (const auto source = made_.peek()) (*source)->advise(range, advice);
  }
  std::string identity() const override {
    const auto source = made_.peek();
    return source ? (*source)->identity() : "";
  }
  std::shared_ptr<const void> hold() const override {
    const auto source = made_.peek();
    return source ? (*source)->hold() : nullptr;
  }
  VerifiedBy verification() const override {
    const auto source = made_.peek();
    return source ? (*source)->verification() : VerifiedBy::unknown;
  }
  SourcePtr direct() const override {
    const auto source = made_.peek();
    return source && (*source)->size() == size_ ? (*source)->direct() : nullptr;
  }

 private:
  Result<SourcePtr> made() const {
    SourcePtr source = TRY(made_.get());
    if (source->size() != size_)
      return failure(Code::io, fmt::format("produced {} bytes, expected {}", source->size(), size_));
    return source;
  }

  uint64_t size_;
  Later<SourcePtr> made_;
};

}  // namespace

std::string_view to_text(VerifiedBy verification) {
  switch (verification) {
    case VerifiedBy::mismatch:
      return "mismatch";
    case VerifiedBy::unpinned:
    case VerifiedBy::transport:
      return "transport";
    case VerifiedBy::blocks:
      return "blocks";
    case VerifiedBy::whole:
      return "whole";
    case VerifiedBy::unknown:
      break;
  }
  return "";
}

VerifiedBy worse(VerifiedBy a, VerifiedBy b) {
  if (a == VerifiedBy::unknown || b == VerifiedBy::unknown) return std::max(a, b);
  return std::min(a, b);
}

Result<void> Source::fetch(ByteRange range) const {
  std::byte last;
  if (range.from < range.to && !DownloadScope::is_active()) TRY(read(range.to - 1, std::span(&last, 1)));
  return {};
}

Result<void> Source::read_pieces(std::span<const Piece> pieces) const {
  for (const Piece& piece : pieces) TRY_VOID(read_exact(*this, piece.offset, piece.out));
  return {};
}

Result<Descriptor> Source::open_whole_file() const { return failure(Code::unsupported, "not a local file"); }

bool is_write_protected(int fd, const struct stat& file) {
  if ((file.st_mode & (S_IWUSR | S_IWGRP | S_IWOTH)) == 0 && is_private_file(file)) return true;
  constexpr uint64_t kImmutable = STATX_ATTR_IMMUTABLE | STATX_ATTR_VERITY;
  struct statx status {};
  return ::statx(fd, "", AT_EMPTY_PATH, STATX_TYPE, &status) == 0 && (status.stx_attributes & kImmutable) != 0;
}

bool is_private_file(const struct stat& file) { return is_private(file.st_mode, file.st_uid, file.st_gid); }

Result<SourcePtr> open_file(const std::string& path) {
  // O_NONBLOCK: a FIFO or a device must be refused, not waited for; it means nothing on a regular file.
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file) return failure(errno_code(errno), fmt::format("{}: {}", path, errno_text(errno)));
  return source_of_file(std::move(file), nullptr, path, ConfinedDirectory::Links::by_rules);
}

Result<SourcePtr> source_of_file(Descriptor file, ConfinedDirectoryPtr directory, std::string name,
                                 ConfinedDirectory::Links links) {
  struct stat opened {};
  const bool known = ::fstat(file.number(), &opened) == 0;
  if (!known || !S_ISREG(opened.st_mode))
    return failure(Code::io, fmt::format("{}{}", directory == nullptr ? name : directory->path_of(name),
                                         known ? ": not a regular file" : ": cannot be examined"));
  return std::make_shared<FileSource>(std::move(file), opened, std::move(directory), std::move(name), links);
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

SourcePtr in_memory(std::string bytes) { return std::make_shared<MemorySource>(std::move(bytes)); }

Result<Slice> slice(SourcePtr whole, uint64_t offset, uint64_t size) {
  const uint64_t there = whole->size();
  if (offset > there || size > there - offset)
    return failure(Code::corrupt,
                   fmt::format("{} bytes at offset {} are outside the source of {} bytes", size, offset, there));
  return Slice(std::move(whole), offset, size);
}

Result<size_t> Slice::read(uint64_t offset, std::span<std::byte> out) const {
  if (refused()) return failure(Code::corrupt, "refused when the container was read");
  return whole_->read(offset_ + std::min(offset, size_), out.first(clamp(size_, offset, out)));
}

Result<size_t> Slice::read_ahead(uint64_t offset, std::span<std::byte> out, ByteRange expected) const {
  if (refused()) return failure(Code::corrupt, "refused when the container was read");
  return whole_->read_ahead(offset_ + std::min(offset, size_), out.first(clamp(size_, offset, out)),
                            in_whole(expected));
}

Result<void> Slice::fetch(ByteRange range) const {
  if (refused()) return failure(Code::corrupt, "refused when the container was read");
  return whole_->fetch(in_whole(range));
}

Result<CachedBytes> Slice::cached(ByteRange range) const {
  if (refused()) return failure(Code::corrupt, "refused when the container was read");
  return whole_->cached(in_whole(range));
}

ByteRange Slice::in_whole(ByteRange range) const {
  return {offset_ + std::min(range.from, size_), offset_ + std::min(range.to, size_)};
}

Result<void> Slice::read_pieces(std::span<const Piece> pieces) const {
  if (refused()) return failure(Code::corrupt, "refused when the container was read");
  std::vector<Piece> moved(pieces.begin(), pieces.end());
  for (Piece& piece : moved) {
    TRY_VOID(check_inside(*this, piece));
    piece.offset += offset_;
  }
  return whole_->read_pieces(moved);
}

Result<Descriptor> Slice::open_whole_file() const {
  if (refused()) return Source::open_whole_file();
  if (size_ != whole_->size()) return failure(Code::unsupported, "part of a larger file");
  return whole_->open_whole_file();
}

std::optional<Extent> Slice::extent() const {
  const auto outer = refused() ? std::nullopt : whole_->extent();
  if (!outer) return std::nullopt;
  return Extent{outer->fd, outer->offset + offset_, size_, outer->open};
}

Result<std::optional<MappedBytes>> Slice::map(uint64_t offset, size_t size) const {
  if (refused()) return failure(Code::corrupt, "refused when the container was read");
  return whole_->map(offset_ + std::min(offset, size_), clamp(size_, offset, size));
}

void Slice::advise(ByteRange range, Advice advice) const {
  if (!refused()) whole_->advise(in_whole(range), advice);
}

std::string Slice::identity() const {
  const std::string outer = refused() ? "" : whole_->identity();
  return outer.empty() ? "" : fmt::format("{} [{}+{}]", outer, offset_, size_);
}

VerifiedBy Slice::verification() const { return refused() ? VerifiedBy::unknown : whole_->verification(); }

SourcePtr Slice::direct() const {
  SourcePtr whole = refused() ? nullptr : whole_->direct();
  return whole == nullptr ? nullptr : SourcePtr(new Slice(std::move(whole), offset_, size_));
}

SourcePtr concat(std::vector<SourcePtr> parts) { return std::make_shared<ConcatSource>(std::move(parts)); }

SourcePtr lazy(uint64_t size, Later<SourcePtr> made) { return std::make_shared<LazySource>(size, std::move(made)); }

Result<void> read_exact(const Source& source, uint64_t offset, std::span<std::byte> out) {
  const size_t got = TRY(source.read(offset, out));
  return got == out.size() ? Result<void>() : ends_too_early(source.size(), offset, out.size());
}

Result<std::string> read_text(const Source& source, uint64_t offset, uint64_t size) {
  if (offset > source.size() || size > source.size() - offset) return ends_too_early(source.size(), offset, size);
  std::string text(size, '\0');
  TRY_VOID(read_exact(source, offset, std::as_writable_bytes(std::span(text))));
  return text;
}

}  // namespace weightfs
