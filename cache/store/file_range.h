// Bytes in files of the store's own: where a blob lies, and which of them are open at the moment.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/digest.h"
#include "base/result.h"

namespace weightfs {

/// A failed system call on `what`, in words, with errno's reason.
Error system_error(const std::string& what);

/// An open descriptor, closed with its owner.
class OpenFile {
 public:
  explicit OpenFile(int fd) : fd_(fd) {}
  ~OpenFile();
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  int fd() const { return fd_; }

 private:
  int fd_;
};

using OpenFilePtr = std::shared_ptr<const OpenFile>;

/// Writes all of `bytes` at `offset`; false with errno set when the system would not take them.
bool write_fully(int fd, uint64_t offset, std::span<const std::byte> bytes);

/// Reads bytes of a blob that is a file of its own, and compares them with what was verified. Callable from any thread.
class CheckedFile {
 public:
  virtual ~CheckedFile() = default;
  CheckedFile() = default;
  CheckedFile(const CheckedFile&) = delete;
  CheckedFile& operator=(const CheckedFile&) = delete;

  /// As Range::read(); fails with io also when the bytes are not those that were verified.
  virtual Result<void> read(int fd, uint64_t offset, std::span<std::byte> out) = 0;
};

/// Fills `out` from `offset` of the file; fails with io when the bytes are not there or cannot be read.
Result<void> read_fully(int fd, uint64_t offset, std::span<std::byte> out);

/// Where a blob's bytes lie: one piece of a file, or several.
class Range {
 public:
  /// `size` bytes at `offset` of the file.
  struct Piece {
    uint64_t offset;
    uint64_t size;
    std::shared_ptr<const void> taken = nullptr;  ///< keeps the bytes from being given to another
  };

  Range(OpenFilePtr file, std::vector<Piece> pieces) : file_(std::move(file)), pieces_(std::move(pieces)) {}
  /// All `size` bytes of a file, which are compared as they are read.
  Range(OpenFilePtr file, uint64_t size, std::shared_ptr<CheckedFile> check)
      : file_(std::move(file)), pieces_{{0, size}}, check_(std::move(check)) {}

  uint64_t size() const;
  const OpenFilePtr& file() const { return file_; }

  /// Fills `out` from `offset` of the blob; fails with io when the bytes are not there or cannot be read.
  Result<void> read(uint64_t offset, std::span<std::byte> out) const;

 private:
  OpenFilePtr file_;
  std::vector<Piece> pieces_;
  std::shared_ptr<CheckedFile> check_;  // may be null
};

using RangePtr = std::shared_ptr<const Range>;

/// A finished blob; false when there is none.
struct Kept {
  RangePtr range;
  Digest digest;

  explicit operator bool() const { return range != nullptr; }
};

/// The blobs opened last, by name: never more than `most`, and none that was deleted longer than it takes to open
/// another: its blocks are free only when it is closed. Callable from any thread.
class OpenBlobs {
 public:
  explicit OpenBlobs(size_t most) : most_(most) {}

  Kept find(const std::string& name);
  void add(const std::string& name, Kept blob);
  void drop_deleted();

 private:
  struct Entry {
    std::string name;
    Kept blob;
  };
  using Entries = std::list<Entry>;  // the one used last comes first

  void remove(Entries::iterator entry);
  void remove_deleted();

  size_t most_;
  std::mutex mutex_;  // guards the next two
  Entries entries_;
  std::unordered_map<std::string, Entries::iterator> places_;
};

}  // namespace weightfs
