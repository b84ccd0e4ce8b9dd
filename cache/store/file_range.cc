#include "cache/store/file_range.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "base/files/file_io.h"
#include "base/files/no_passthrough.h"
#include "base/os/memory.h"
#include "base/os/system_error.h"
#include "cache/store/recheck.h"

namespace weightfs::store {

Result<size_t> FileRange::read(uint64_t offset, std::span<std::byte> out) const {
  if (offset >= size_) return size_t{0};
  out = out.first(static_cast<size_t>(std::min<uint64_t>(out.size(), size_ - offset)));
  if (out.size() > MemoryTurn::kLarge) MemoryTurn::take();
  if (check_ != nullptr)
    TRY_VOID(check_->read(files_, offset, out));
  else
    TRY_VOID(read_fully(file()->number(), offset, out, kCachedBlob));
  return out.size();
}

// The file may be open for writing, as that of a new blob is.
Result<Descriptor> FileRange::open_whole_file() const {
  struct stat status {};
  if (::fstat(file()->number(), &status) != 0) return failure(io_error("a cached blob"));
  // More readers of a temporary or evicted file would use disk space that is not counted any more.
  if (status.st_nlink == 0 || static_cast<uint64_t>(status.st_size) != size_) return failure(NoPassthrough::evicted);
  if (check_ != nullptr) TRY_VOID(check_->check_all(files_));
  Descriptor file(::open(fmt::format("/proc/self/fd/{}", files_.data->number()).c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return failure(io_error("a cached blob"));
  return file;
}

}  // namespace weightfs::store
