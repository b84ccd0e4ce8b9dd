// Unnamed temporary files (O_TMPFILE): the kernel deletes them when the process ends, however it ends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"

namespace weightfs {

/// Where temporary files may be large: $TMPDIR, then /var/tmp, then /tmp, which is often in memory.
std::vector<std::string> tmpfile_directories();

/// The descriptor, close-on-exec, of a new unnamed file in `directory`; -1 with errno on failure.
int open_tmpfile(const std::string& directory);

/// Replaces the implementation of open_tmpfile(), for a process that may not open files itself. Call it only while the
/// process has one thread.
void set_tmpfile_opener(std::function<int(const std::string& directory)> opener);

/// Memory that the kernel can write to disk: an unnamed temporary file that is mapped. All of the process together take
/// at most a quarter of the file system. For one thread.
class ScratchFile {
 public:
  /// A file of `size` bytes, none of them on disk yet. Fails with io.
  static Result<std::unique_ptr<ScratchFile>> create(uint64_t size);

  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;
  ~ScratchFile();

  uint64_t size() const { return size_; }

  /// Allocates disk space for the first `size` bytes. Fails with resource beyond the limit, and with io.
  Result<void> grow(uint64_t size);

  /// Only the bytes that grow() allocated may be used: a page without disk space would end the process (SIGBUS).
  std::byte* data() { return static_cast<std::byte*>(mapped_); }

  /// Unmaps the pages, not the bytes: they are mapped again when they are used.
  void drop_pages();

  /// The bytes on disk of all files of the process.
  static uint64_t total();

 private:
  ScratchFile(int fd, void* mapped, uint64_t size) : fd_(fd), mapped_(mapped), size_(size) {}

  int fd_;
  void* mapped_;
  uint64_t size_;
  uint64_t grown_ = 0;
};

}  // namespace weightfs
