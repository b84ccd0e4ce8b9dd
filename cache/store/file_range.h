// Byte ranges in the store's files.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/digest.h"
#include "base/os/descriptor.h"
#include "base/result.h"

namespace weightfs::store {

class RecheckedFile;

/// Writes all bytes at `offset`; false with errno set on failure.
bool write_fully(int fd, uint64_t offset, std::span<const std::byte> bytes);

/// Fills `out` from `offset` of the file; fails with io on an error or early end.
Result<void> read_fully(int fd, uint64_t offset, std::span<std::byte> out);

/// The location of a blob's bytes: one or more segments of a file.
class FileRange {
 public:
  /// `size` bytes at `offset` of the file.
  struct Segment {
    uint64_t offset;
    uint64_t size;
    std::shared_ptr<const void> owner = nullptr;  ///< keeps the bytes allocated
  };

  FileRange(SharedDescriptor file, std::vector<Segment> segments)
      : file_(std::move(file)), segments_(std::move(segments)) {}
  /// A whole file of `size` bytes, compared by `check` as it is read.
  FileRange(SharedDescriptor file, uint64_t size, std::shared_ptr<RecheckedFile> check = nullptr)
      : file_(std::move(file)), segments_{{0, size}}, check_(std::move(check)) {}

  uint64_t size() const;
  const SharedDescriptor& file() const { return file_; }

  /// Fills `out` from `offset` of the blob; fails with io on an error or early end.
  Result<void> read(uint64_t offset, std::span<std::byte> out) const;

  /// As Source::open_whole_file().
  Result<Descriptor> open_whole_file() const;

 private:
  SharedDescriptor file_;
  std::vector<Segment> segments_;
  std::shared_ptr<RecheckedFile> check_;  // may be null
};

using FileRangePtr = std::shared_ptr<const FileRange>;

/// A finished blob; false if there is none.
struct BlobHandle {
  FileRangePtr range;
  Digest digest;

  explicit operator bool() const { return range != nullptr; }
};

}  // namespace weightfs::store
