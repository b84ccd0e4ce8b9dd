#include "report/export/writer.h"

#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/os/kernel.h"
#include "base/os/system_error.h"

namespace weightfs::exporting {
namespace {

constexpr size_t kBuffer = size_t{1} << 20;
constexpr uint64_t kBlock = 4096;                    // of file systems that share blocks
constexpr uint64_t kMinShared = 64 * 1024;           // below, a call costs more than a copy
constexpr uint64_t kMaxShared = uint64_t{64} << 20;  // between two checks, and reports of progress

bool is_about_space(int error) { return error == ENOSPC || error == EDQUOT || error == EFBIG; }

}  // namespace

Writer::Writer(int descriptor, std::string name, Report report)
    : descriptor_(descriptor), name_(std::move(name)), report_(std::move(report)) {
  struct stat status {};
  const off_t position = ::lseek(descriptor, 0, SEEK_CUR);
  if (position >= 0 && ::fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode))
    position_ = static_cast<uint64_t>(position);
}

Result<void> Writer::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return failure(io_error(name_));
    const auto count = static_cast<size_t>(written);
    if (position_) *position_ += count;
    report_(count);
    bytes = bytes.subspan(count);
  }
  return {};
}

bool Writer::has_equal_place(const Extent& extent) const { return extent.offset % kBlock == *position_ % kBlock; }

Result<void> Writer::copy(const Source& source) {
  std::shared_ptr<const void> held;  // the reader of a pipe may be slow
  const auto file = position_ ? extent_of(source) : std::nullopt;
  for (uint64_t offset = 0; offset < source.size();) {
    if (held == nullptr) held = source.keep_cached();
    uint64_t most = std::min<uint64_t>(kBuffer, source.size() - offset);
    if (file && position_ && file->size - offset >= kMinShared) {
      const Extent rest{file->fd, file->offset + offset, file->size - offset, file->open};
      const uint64_t before_block = (kBlock - rest.offset % kBlock) % kBlock;
      if (before_block == 0 && has_equal_place(rest)) {
        const uint64_t shared = TRY(share_blocks(source, offset, rest));
        offset += shared;
        if (shared > 0) continue;
      } else if (has_equal_place(rest)) {
        most = std::min(most, before_block);
      }
    }
    buffer_.resize(std::max(buffer_.size(), static_cast<size_t>(most)));
    const auto bytes = std::span(buffer_).first(static_cast<size_t>(most));
    const size_t got = TRY(source.read_ahead(offset, bytes, {0, source.size()}));
    if (got == 0) return failure(Code::io, "the source ended before its size");
    TRY_VOID(write(bytes.first(got)));
    offset += got;
  }
  return {};
}

// Returns 0 if these files cannot share blocks. copy_file_range() would then copy, more slowly than reads and writes.
Result<uint64_t> Writer::share_blocks(const Source& source, uint64_t offset, const Extent& extent) {
  const uint64_t count = std::min(extent.size, kMaxShared) / kBlock * kBlock;
  kernel::CloneRange range{extent.fd, extent.offset, count, *position_};
  int failed = 0;
  do failed = ::ioctl(descriptor_, kernel::kCloneRange, &range);
  while (failed != 0 && errno == EINTR);
  if (failed != 0 && is_about_space(errno)) return failure(io_error(name_));
  if (failed != 0) {
    position_.reset();
    return uint64_t{0};
  }
  *position_ += count;
  if (::lseek(descriptor_, static_cast<off_t>(*position_), SEEK_SET) < 0) return failure(io_error(name_));
  // A read fails if the file was changed before or during the copy.
  std::byte last{};
  TRY_VOID(read_exact(source, offset + count - 1, {&last, 1}));
  report_(count);
  return count;
}

}  // namespace weightfs::exporting
