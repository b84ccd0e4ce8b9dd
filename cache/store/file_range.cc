#include "cache/store/file_range.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <system_error>

#include "base/text.h"

namespace weightfs {
Result<void> read_fully(int fd, uint64_t offset, std::span<std::byte> out) {
  while (!out.empty()) {
    const ssize_t got = ::pread(fd, out.data(), out.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return tl::unexpected(system_error("a kept blob cannot be read"));
    if (got == 0) return failure(Code::io, "a kept blob ends before its size");
    out = out.subspan(static_cast<size_t>(got));
    offset += static_cast<uint64_t>(got);
  }
  return {};
}

Error system_error(const std::string& what) {
  return Error{Code::io, str(what, ": ", std::generic_category().message(errno))};
}

OpenFile::~OpenFile() { ::close(fd_); }

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

uint64_t Range::size() const {
  uint64_t size = 0;
  for (const Piece& piece : pieces_) size += piece.size;
  return size;
}

Result<void> Range::read(uint64_t offset, std::span<std::byte> out) const {
  if (check_ != nullptr) return check_->read(file_->fd(), offset, out);
  for (const Piece& piece : pieces_) {
    if (out.empty()) break;
    if (offset >= piece.size) {
      offset -= piece.size;
      continue;
    }
    const auto here = out.first(static_cast<size_t>(std::min<uint64_t>(out.size(), piece.size - offset)));
    TRY_VOID(read_fully(file_->fd(), piece.offset + offset, here));
    out = out.subspan(here.size());
    offset = 0;
  }
  if (!out.empty()) return failure(Code::io, "a kept blob ends before its size");
  return {};
}

Kept OpenBlobs::find(const std::string& name) {
  const std::scoped_lock lock(mutex_);
  const auto place = places_.find(name);
  if (place == places_.end()) return {};
  entries_.splice(entries_.begin(), entries_, place->second);
  return place->second->blob;
}

void OpenBlobs::add(const std::string& name, Kept blob) {
  const std::scoped_lock lock(mutex_);
  if (const auto place = places_.find(name); place != places_.end()) remove(place->second);
  remove_deleted();
  entries_.push_front(Entry{name, std::move(blob)});
  places_[name] = entries_.begin();
  if (entries_.size() > most_) remove(std::prev(entries_.end()));
}

void OpenBlobs::drop_deleted() {
  const std::scoped_lock lock(mutex_);
  remove_deleted();
}

void OpenBlobs::remove_deleted() {
  for (auto entry = entries_.begin(); entry != entries_.end();) {
    const auto here = entry++;
    struct stat status {};
    if (::fstat(here->blob.range->file()->fd(), &status) == 0 && status.st_nlink == 0) remove(here);
  }
}

void OpenBlobs::remove(Entries::iterator entry) {
  places_.erase(entry->name);
  entries_.erase(entry);
}

}  // namespace weightfs
