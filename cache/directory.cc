#include "cache/directory.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/text.h"

namespace weightfs {
namespace {

// Blobs that are open at the same time: as many as are read at once, and few of the 1024 descriptors of a process.
constexpr size_t kMostOpen = 128;

// Each turn of begin() needs another process that got in between.
constexpr int kTurns = 1000;

RangePtr whole(OpenFilePtr file, uint64_t size) {
  return std::make_shared<Range>(std::move(file), std::vector<Range::Piece>{{0, size}});
}

class DirectoryDraft final : public Draft {
 public:
  DirectoryDraft(std::shared_ptr<Directory> directory, Name name, OpenFilePtr file, std::string path)
      : directory_(std::move(directory)), name_(std::move(name)), file_(std::move(file)), path_(std::move(path)) {}

  ~DirectoryDraft() override {
    if (!published_ && is_at(path_, file_->fd())) ::unlink(path_.c_str());
    release(file_->fd());
  }

  Result<void> reserve(uint64_t size) override {
    if (size <= reserved_) return {};
    TRY_VOID(directory_->room().take(file_->fd(), reserved_, size));
    reserved_ = size;
    return {};
  }

  Result<void> write(uint64_t offset, std::span<const std::byte> bytes) override {
    if (write_fully(file_->fd(), offset, bytes)) return {};
    const bool full = is_full(errno);
    const Error error = system_error("a blob cannot be written");
    const bool freed = full && directory_->room().free_up(bytes.size());
    if (freed && write_fully(file_->fd(), offset, bytes)) return {};
    return tl::unexpected(error);
  }

  RangePtr range() const override { return whole(file_, INT64_MAX); }

  Result<Kept> publish(const Digest& digest, uint64_t size) override {
    if (reserved_ > size) std::ignore = ::ftruncate(file_->fd(), static_cast<off_t>(size));  // blocks beyond the end
    Kept kept = TRY(directory_->publish(name_, file_, path_, digest, size));
    published_ = true;
    return kept;
  }

 private:
  std::shared_ptr<Directory> directory_;
  Name name_;
  OpenFilePtr file_;
  std::string path_;
  uint64_t reserved_ = 0;
  bool published_ = false;
};

}  // namespace

Directory::Directory(const std::string& directory, std::optional<uint64_t> quota)
    : paths_(directory),
      open_(kMostOpen),
      room_(paths_, quota, [this](const Digest& digest) { open_.drop(digest); }),
      suffix_(boot().empty() ? random_hex(8) : boot()) {}

// The bytes of whoever could write there would be served as ours.
Result<void> Directory::look_over() {
  std::call_once(swept_, [this] { sweep(); });
  struct stat root {};
  if (::stat(paths_.root.c_str(), &root) != 0) return {};
  const bool ours = root.st_uid == ::geteuid() || root.st_uid == 0;
  if (ours && (root.st_mode & (S_IWGRP | S_IWOTH)) == 0) return {};
  return failure(Code::unavailable, str(paths_.root, ": others may write there"));
}

Kept Directory::find(const Name& name, std::optional<uint64_t> size) {
  if (!look_over()) return {};
  const auto digest = name.digest || name.key.empty() ? name.digest : digest_in_link(paths_.link(name));
  if (!digest) return {};
  const std::string path = paths_.blob(digest->hex());
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return {};
  auto file = std::make_shared<OpenFile>(fd);
  struct stat opened {};
  if (::fstat(fd, &opened) != 0 || !S_ISREG(opened.st_mode)) return {};
  if (size && static_cast<uint64_t>(opened.st_size) != *size) {
    ::unlink(path.c_str());
    return {};
  }
  // Used now: eviction goes by this time. On a read-only file system it stays as it is.
  const timespec times[2] = {{0, UTIME_OMIT}, {0, UTIME_NOW}};
  ::futimens(fd, times);
  const Kept kept{whole(std::move(file), static_cast<uint64_t>(opened.st_size)), *digest};
  open_.add(name.text, kept);
  return kept;
}

Result<Begun> Directory::begin(const Name& name, std::optional<uint64_t> size) {
  TRY_VOID(prepare());
  for (int turn = 0; turn < kTurns; ++turn) {
    auto begun = TRY(try_begin(name, size));
    if (begun) return std::move(*begun);
  }
  return failure(Code::unavailable, str(paths_.making, ": changes all the time"));
}

// Nothing when another process got in between.
Result<std::optional<Begun>> Directory::try_begin(const Name& name, std::optional<uint64_t> size) {
  if (auto kept = find(name, size)) return Begun{std::move(kept), nullptr, nullptr, 0};
  const std::string path = str(paths_.making, "/", name.text, ".", suffix_);
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return tl::unexpected(system_error(paths_.making));
  auto file = std::make_shared<OpenFile>(fd);
  const bool locked = try_lock(fd);
  if (!locked && errno != EWOULDBLOCK) return tl::unexpected(system_error(paths_.making));
  struct stat opened {};
  if (::fstat(fd, &opened) != 0) return tl::unexpected(system_error(paths_.making));
  const auto there = static_cast<uint64_t>(opened.st_size);
  if (!locked) return Begun{{}, nullptr, whole(std::move(file), there), there};
  if (!is_at(path, fd)) return std::nullopt;
  if (there > 0) {
    ::unlink(path.c_str());
    return std::nullopt;
  }
  auto draft = std::make_unique<DirectoryDraft>(shared_from_this(), name, std::move(file), path);
  // Whoever held the lock before may have published it since.
  if (auto kept = find(name, size)) return Begun{std::move(kept), nullptr, nullptr, 0};
  return Begun{{}, std::move(draft), nullptr, 0};
}

Result<Kept> Directory::publish(const Name& name, const OpenFilePtr& file, const std::string& path,
                                const Digest& digest, uint64_t size) {
  const std::string place = paths_.blob(digest.hex());
  if (::fsync(file->fd()) != 0) return tl::unexpected(system_error(paths_.making));
  TRY_VOID(make_directories(place.substr(0, place.rfind('/'))));
  // The link first: one that leads nowhere is harmless, a blob that nobody finds is not.
  if (!name.key.empty()) TRY_VOID(link(name, digest));
  // Somebody may have cleared the directory away, and somebody else may be making the same blob there.
  if (!is_at(path, file->fd())) return failure(Code::unavailable, str(paths_.making, ": was cleared"));
  if (::rename(path.c_str(), place.c_str()) != 0) return tl::unexpected(system_error(paths_.blobs));
  const Kept kept{whole(file, size), digest};
  open_.add(name.text, kept);
  return kept;
}

// A symbolic link comes with its text, at once (symlink(2)).
Result<void> Directory::link(const Name& name, const Digest& digest) const {
  const std::string path = paths_.link(name);
  if (digest_in_link(path) == digest) return {};
  ::unlink(path.c_str());
  if (::symlink(digest.hex().c_str(), path.c_str()) == 0 || errno == EEXIST) return {};
  return tl::unexpected(system_error(paths_.index));
}

Result<void> Directory::prepare() {
  for (const std::string& path : {paths_.root, paths_.blobs, paths_.index, paths_.making})
    TRY_VOID(make_directories(path));
  return look_over();
}

// What killed processes left: files in making/ whose lock can be had.
void Directory::sweep() const {
  for_each_in(paths_.making, [&](const std::string& name) {
    const std::string path = str(paths_.making, "/", name);
    const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) return;
    const OpenFile file(fd);
    if (try_lock(fd) && is_at(path, fd)) ::unlink(path.c_str());
  });
}

}  // namespace weightfs
