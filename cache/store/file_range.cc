#include "cache/store/file_range.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/os/memory.h"
#include "base/os/system_error.h"
#include "cache/store/recheck.h"

namespace weightfs::store {

Result<void> read_fully(int fd, uint64_t offset, std::span<std::byte> out) {
  while (!out.empty()) {
    const ssize_t got = ::pread(fd, out.data(), out.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return failure(io_error("cannot read a cached blob"));
    if (got == 0) return failure(Code::io, "a cached blob is truncated");
    out = out.subspan(static_cast<size_t>(got));
    offset += static_cast<uint64_t>(got);
  }
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

Result<size_t> FileRange::read(uint64_t offset, std::span<std::byte> out) const {
  if (offset >= size_) return size_t{0};
  out = out.first(static_cast<size_t>(std::min<uint64_t>(out.size(), size_ - offset)));
  if (out.size() > MemoryTurn::kLarge) MemoryTurn::take();
  if (check_ != nullptr)
    TRY_VOID(check_->read(file_->number(), offset, out));
  else
    TRY_VOID(read_fully(file_->number(), offset, out));
  return out.size();
}

// The file may be open for writing, as that of a new blob is.
Result<Descriptor> FileRange::open_whole_file() const {
  struct stat status {};
  if (::fstat(file_->number(), &status) != 0) return failure(io_error("a cached blob"));
  // More readers of a temporary or evicted file would use disk space that is not counted any more.
  if (status.st_nlink == 0 || static_cast<uint64_t>(status.st_size) != size_)
    return failure(Code::unsupported, "not in the cache");
  if (check_ != nullptr) TRY_VOID(check_->check_all(file_->number()));
  Descriptor file(::open(fmt::format("/proc/self/fd/{}", file_->number()).c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return failure(io_error("a cached blob"));
  return file;
}

}  // namespace weightfs::store
