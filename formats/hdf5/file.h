// An HDF5 file: its superblock, and its metadata. Metadata lie in small blocks all over the file, so they are read in
// pages.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "base/budget.h"
#include "base/source.h"
#include "formats/hdf5/fields.h"

namespace weightfs::hdf5 {

inline constexpr std::string_view kSignature = "\x89HDF\r\n\x1A\n";

/// The superblock, and where it is.
struct File {
  SourcePtr bytes;
  uint64_t base = 0;  ///< of all addresses: the offset of the superblock
  uint32_t version = 0;
  Sizes sizes;
  uint32_t leaf_k = 0;              ///< half the maximum number of entries of a symbol node; 0 if not known
  uint32_t internal_k = 0;          ///< the same of a B-tree node of a group
  uint64_t root = 0;                ///< the address of the root group
  uint64_t extension = kUndefined;  ///< the address of an object header with more messages about the file
};

/// Finds the signature at `begin`, 2 * begin, 4 * begin ... before `end`, where `begin` is 512 times a power of two; or
/// nothing. Reads 8 bytes at each.
Result<std::optional<uint64_t>> find_signature(const Source& bytes, uint64_t begin, uint64_t end);

/// Finds the signature at 0, 512, 1024, 2048 ... and reads the superblock. Fails with corrupt if there is none, and for
/// a file that is shorter than its superblock claims; with unsupported for another version, and for a part of a file
/// that HDF5 divided.
Result<File> open(const SourcePtr& bytes);

/// The blocks of one structure, such as a B-tree. Each is entered once, and together they are no larger than the file:
/// so a loop fails.
class Visited {
 public:
  Result<void> enter(uint64_t address, uint64_t size, uint64_t file_size);

 private:
  std::set<uint64_t> addresses_;
  uint64_t bytes_ = 0;
};

/// Reads metadata blocks by address. For one thread.
class Metadata {
 public:
  /// `budget` is charged for what is read, unless it is null. `file` and `budget` outlive it.
  Metadata(const File& file, Budget* budget) : file_(file), budget_(budget) {}

  const File& file() const { return file_; }
  Sizes sizes() const { return file_.sizes; }
  uint64_t size() const { return file_.bytes->size() - file_.base; }  ///< bytes that have an address

  /// The `size` bytes at `address`. Fails with corrupt if they are not all in the file, and as the budget does.
  Result<std::string> block(uint64_t address, uint64_t size);

  /// A block of a structure, which is visited once.
  Result<std::string> block(uint64_t address, uint64_t size, Visited& visited) {
    TRY_VOID(visited.enter(address, size, this->size()));
    return block(address, size);
  }

  /// The text at `address` up to a NUL byte, which must come before `end`; of one that is longer than any path
  /// (kMaxNameLength), the beginning. Fails with corrupt.
  Result<std::string> text(uint64_t address, uint64_t end);

  Result<void> charge(Cost cost, uint64_t count = 1) {
    return budget_ == nullptr ? Result<void>() : budget_->charge(cost, count);
  }

 private:
  static constexpr uint64_t kPage = 16 * 1024;
  static constexpr size_t kMaxPages = 512;

  Result<void> read(uint64_t address, std::span<char> out);
  Result<const std::string*> page(uint64_t number);

  const File& file_;
  Budget* budget_;
  std::map<uint64_t, std::string> pages_;
};

}  // namespace weightfs::hdf5
