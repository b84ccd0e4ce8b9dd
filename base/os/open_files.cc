#include "base/os/open_files.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/uio.h>

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

// Null if it cannot be mapped.
std::shared_ptr<const std::byte> mapping_of(int fd, uint64_t size) {
  void* const mapped = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, 0);
  if (mapped == MAP_FAILED) return nullptr;
  return {static_cast<const std::byte*>(mapped),
          [size](const std::byte* bytes) { ::munmap(const_cast<std::byte*>(bytes), size); }};
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

OpenFile::~OpenFile() { mapped_files().remove(*this); }

// Descriptors are closed without the lock: closing a file on a network takes time.
void RecentFiles::add(OpenFilePtr file) {
  OpenFilePtr closed;
  const std::scoped_lock lock(mutex_);
  if (files_.size() == max_) {
    const auto before = [](const OpenFilePtr& a, const OpenFilePtr& b) {
      return a->last_use.load() < b->last_use.load();
    };
    const auto oldest = std::min_element(files_.begin(), files_.end(), before);
    closed = std::move(*oldest);
    files_.erase(oldest);
  }
  files_.push_back(std::move(file));
}

void RecentFiles::remove(const OpenFilePtr& file) {
  OpenFilePtr closed;
  const std::scoped_lock lock(mutex_);
  const auto found = std::find(files_.begin(), files_.end(), file);
  if (found == files_.end()) return;
  closed = std::move(*found);
  files_.erase(found);
}

bool RecentFiles::clear() {
  std::vector<OpenFilePtr> closed;
  const std::scoped_lock lock(mutex_);
  closed.swap(files_);
  return !closed.empty();
}

// Bytes that are copied are of this mapping until the caller releases it, even if it is replaced meanwhile.
std::optional<MappedBytes> MappedFiles::map(const OpenFile& file, ByteRange range, uint64_t size) {
  const uint64_t count = range.to - range.from;
  if (count == 0) return MappedBytes{};
  if (!is_cached(file.number(), range.to - 1)) return std::nullopt;
  std::shared_ptr<const std::byte> replaced;  // unmapped without the lock
  const std::scoped_lock lock(mutex_);
  auto mapping = std::find_if(mappings_.begin(), mappings_.end(), [&](const Mapping& m) { return m.file == &file; });
  if (mapping == mappings_.end() || mapping->left < count) {
    if (mapping == mappings_.end() && mappings_.size() == kMax) mapping = mappings_.begin();
    if (mapping != mappings_.end()) {
      replaced = std::move(mapping->bytes);
      mappings_.erase(mapping);
    }
    auto bytes = mapping_of(file.number(), size);
    if (bytes == nullptr) return std::nullopt;
    mapping = mappings_.insert(mappings_.end(), {&file, std::move(bytes), std::max(kReplaced, count)});
  }
  mapping->left -= count;
  return MappedBytes{{mapping->bytes.get() + range.from, count}, mapping->bytes};
}

void MappedFiles::remove(const OpenFile& file) {
  std::shared_ptr<const std::byte> unmapped;
  const std::scoped_lock lock(mutex_);
  const auto mapping =
      std::find_if(mappings_.begin(), mappings_.end(), [&](const Mapping& m) { return m.file == &file; });
  if (mapping == mappings_.end()) return;
  unmapped = std::move(mapping->bytes);
  mappings_.erase(mapping);
}

// Never destroyed: files are closed until the process ends.
MappedFiles& mapped_files() {
  static auto& files = *new MappedFiles;
  return files;
}

void advise_about(const OpenFile& file, ByteRange range, Advice advice) {
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
