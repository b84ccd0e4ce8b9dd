#include "base/os/tmpfile.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <utility>

#include "base/os/system_error.h"
#include "base/text.h"

namespace weightfs {
namespace {

std::function<int(const std::string&)> replacement;  // of open_tmpfile()

std::atomic<uint64_t> scratch_bytes = 0;  // of all ScratchFiles

// A quarter of the file system of an open file.
uint64_t max_scratch_bytes(int fd) {
  struct statvfs system {};
  if (::fstatvfs(fd, &system) != 0) return 0;
  return uint64_t{system.f_blocks} * system.f_frsize / 4;
}

Error scratch_error(uint64_t size, int error) {
  return {Code::io, fmt::format("no temporary file of {} bytes in {}: {}", size, tmpfile_directories().front(),
                                errno_text(error))};
}

}  // namespace

void set_tmpfile_opener(std::function<int(const std::string& directory)> opener) { replacement = std::move(opener); }

std::vector<std::string> tmpfile_directories() {
  const char* named = std::getenv("TMPDIR");
  if (named != nullptr && *named != '\0') return {named, "/var/tmp", "/tmp"};
  return {"/var/tmp", "/tmp"};
}

int open_tmpfile(const std::string& directory) {
  if (replacement) return replacement(directory);
  const int fd = ::open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC | O_EXCL, 0600);
  if (fd >= 0) return fd;
  // Some file systems lack O_TMPFILE (overlayfs before Linux 6.6): there the file briefly has a name.
  std::string path = directory + "/weightfs-XXXXXX";
  const int named = ::mkostemp(path.data(), O_CLOEXEC);
  if (named >= 0) ::unlinkat(AT_FDCWD, path.c_str(), 0);  // the only call for this that the sandbox permits
  return named;
}

Result<std::unique_ptr<ScratchFile>> ScratchFile::create(uint64_t size) {
  const int fd = open_tmpfile(tmpfile_directories().front());
  if (fd < 0) return failure(scratch_error(size, errno));
  void* mapped = ::ftruncate(fd, static_cast<off_t>(size)) == 0
                     ? ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)
                     : MAP_FAILED;
  if (mapped != MAP_FAILED) return std::unique_ptr<ScratchFile>(new ScratchFile(fd, mapped, size));
  const int error = errno;
  ::close(fd);
  return failure(scratch_error(size, error));
}

ScratchFile::~ScratchFile() {
  ::munmap(mapped_, size_);
  ::close(fd_);
  scratch_bytes -= grown_;
}

Result<void> ScratchFile::grow(uint64_t size) {
  if (size <= grown_) return {};
  const uint64_t more = size - grown_;
  const uint64_t most = max_scratch_bytes(fd_);
  if (scratch_bytes.fetch_add(more) + more > most) {
    scratch_bytes -= more;
    return failure(Code::resource, fmt::format("temporary files are limited to {}", human_size(most)));
  }
  if (const int error = ::posix_fallocate(fd_, static_cast<off_t>(grown_), static_cast<off_t>(more))) {
    scratch_bytes -= more;
    return failure(scratch_error(size, error));
  }
  grown_ = size;
  return {};
}

void ScratchFile::drop_pages() { ::madvise(mapped_, size_, MADV_DONTNEED); }

uint64_t ScratchFile::total() { return scratch_bytes; }

}  // namespace weightfs
