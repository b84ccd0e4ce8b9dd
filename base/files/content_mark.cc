#include "base/files/content_mark.h"

#include <sys/vfs.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "base/digest.h"
#include "base/files/file_io.h"
#include "base/os/system_error.h"

namespace weightfs {

std::string content_mark(uint64_t file_system, uint64_t size, std::span<const std::byte> head,
                         std::span<const std::byte> tail) {
  constexpr size_t kDigits = 32;
  Sha256 hash;
  const std::array<uint64_t, 3> numbers = {file_system, size, head.size()};
  hash.update(std::as_bytes(std::span(numbers)));
  hash.update(head);
  hash.update(tail);
  return hash.finish().hex().substr(0, kDigits);
}

Result<std::string> content_mark(int fd, uint64_t size) {
  struct statfs file_system {};
  if (::fstatfs(fd, &file_system) != 0) return failure(io_error("file system"));
  uint64_t id = 0;
  static_assert(sizeof file_system.f_fsid == sizeof id);
  std::memcpy(&id, &file_system.f_fsid, sizeof id);
  const auto length = static_cast<size_t>(std::min<uint64_t>(size, kMarkedBytes));
  std::vector<std::byte> head(length);
  std::vector<std::byte> tail(length);
  if (TRY(read_up_to_end(fd, 0, head)) != length || TRY(read_up_to_end(fd, size - length, tail)) != length)
    return failure(Code::io, "the file is shorter than it was");
  return content_mark(id, size, head, tail);
}

}  // namespace weightfs
