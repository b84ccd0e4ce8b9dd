#include "base/files/file_io.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/os/system_error.h"

namespace weightfs {

Result<size_t> read_up_to_end(int fd, uint64_t offset, std::span<std::byte> out) {
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

Result<void> read_fully(int fd, uint64_t offset, std::span<std::byte> out, std::string_view name) {
  const auto done = read_up_to_end(fd, offset, out);
  if (!done) return failure(Code::io, fmt::format("cannot read {}: {}", name, done.error().message));
  if (*done < out.size()) return failure(Code::io, fmt::format("{} is truncated", name));
  return {};
}

bool write_fully(int fd, uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t put = ::pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return false;
    bytes = bytes.subspan(static_cast<size_t>(put));
    offset += static_cast<uint64_t>(put);
  }
  return true;
}

bool try_lock(int fd) { return ::flock(fd, LOCK_EX | LOCK_NB) == 0; }

void unlock(int fd) { ::flock(fd, LOCK_UN); }

bool is_same_file(const Descriptor& folder, const std::string& name, int fd) {
  struct stat there {};
  struct stat open {};
  if (::fstatat(folder.number(), name.c_str(), &there, AT_SYMLINK_NOFOLLOW) != 0 || ::fstat(fd, &open) != 0)
    return false;
  errno = ENOENT;
  return there.st_ino == open.st_ino && there.st_dev == open.st_dev;
}

}  // namespace weightfs
