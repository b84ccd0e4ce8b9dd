#include "base/files/open_files.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

namespace weightfs {
namespace {

// Whether the byte is in the page cache. False on file systems that cannot tell.
bool is_cached(int fd, uint64_t offset) {
  std::byte byte;
  const iovec to{&byte, 1};
  return ::preadv2(fd, &to, 1, static_cast<off_t>(offset), RWF_NOWAIT) == 1;
}

// The kernel releases only whole folios. A folio that these bytes share with the ones before is released with them.
void release_pages(int fd, ByteRange range) {
  constexpr uint64_t kMaxFolio = 2 << 20;
  const uint64_t from = range.from - std::min(range.from, kMaxFolio);
  ::posix_fadvise(fd, static_cast<off_t>(from), static_cast<off_t>(range.to - from), POSIX_FADV_DONTNEED);
}

// At most the read-ahead of the disk: the kernel ignores what exceeds it.
void request_pages(int fd, ByteRange range) {
  ::posix_fadvise(fd, static_cast<off_t>(range.from), static_cast<off_t>(range.to - range.from), POSIX_FADV_WILLNEED);
}

}  // namespace

bool is_cached(const Extent& extent, ByteRange range) { return is_cached(extent.fd, extent.offset + range.to - 1); }

// Descriptors are closed without the lock: closing a file on a network takes time.
void RecentFiles::add(SharedFilePtr file) {
  SharedFilePtr closed;
  const std::scoped_lock lock(mutex_);
  if (files_.size() == max_) {
    const auto before = [](const SharedFilePtr& a, const SharedFilePtr& b) {
      return a->last_use.load() < b->last_use.load();
    };
    const auto oldest = std::min_element(files_.begin(), files_.end(), before);
    closed = std::move(*oldest);
    files_.erase(oldest);
  }
  files_.push_back(std::move(file));
}

void RecentFiles::remove(const SharedFilePtr& file) {
  SharedFilePtr closed;
  const std::scoped_lock lock(mutex_);
  const auto found = std::find(files_.begin(), files_.end(), file);
  if (found == files_.end()) return;
  closed = std::move(*found);
  files_.erase(found);
}

bool RecentFiles::clear() {
  std::vector<SharedFilePtr> closed;
  const std::scoped_lock lock(mutex_);
  closed.swap(files_);
  return !closed.empty();
}

// The whole file is not mapped once and kept, because pages that were copied count as memory of the process.
std::optional<MappedBytes> map_cached(const SharedFile& file, ByteRange range) {
  const uint64_t count = range.to - range.from;
  if (count == 0) return MappedBytes{};
  if (!is_cached(file.number(), range.to - 1)) return std::nullopt;
  static const auto page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  const uint64_t skipped = range.from % page;
  const size_t size = skipped + count;
  void* const mapped =
      ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file.number(), static_cast<off_t>(range.from - skipped));
  if (mapped == MAP_FAILED) return std::nullopt;
  return MappedBytes{{static_cast<const std::byte*>(mapped) + skipped, count},
                     {mapped, [size](void* bytes) { ::munmap(bytes, size); }}};
}

void advise_about(const SharedFile& file, ByteRange range, Advice advice) {
  switch (advice) {
    case Advice::reads_soon:
      return request_pages(file.number(), range);
    case Advice::has_read:
      return release_pages(file.number(), range);
  }
}

RecentFiles& recent_files() {
  static RecentFiles files(kMaxIdleFiles);
  return files;
}

}  // namespace weightfs
