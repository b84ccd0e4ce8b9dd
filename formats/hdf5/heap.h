// Heaps: the texts and messages that groups and attributes refer to.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "formats/hdf5/file.h"

namespace weightfs::hdf5 {

/// The range of the texts of a local heap, by address.
struct LocalHeap {
  uint64_t begin;
  uint64_t end;
};

/// Reads the header of the local heap at `address`. Fails with corrupt if its texts are not in the file.
Result<LocalHeap> read_local_heap(Metadata& metadata, uint64_t address);

/// An object of a heap: where it is in the file, and its bytes.
struct HeapObject {
  uint64_t address;
  std::string bytes;
};

/// A fractal heap: the link messages of a large group, the attributes of an object with many. Its blocks are read once.
class FractalHeap {
 public:
  static Result<FractalHeap> open(Metadata& metadata, uint64_t address);

  /// The object with this ID. Fails with corrupt, and with unsupported for an object that a B-tree of its own locates
  /// by filters.
  Result<HeapObject> object(std::string_view id);

 private:
  explicit FractalHeap(Metadata& metadata) : metadata_(&metadata) {}

  // A block of the doubling table: its address, the offset of its first byte in the heap, its size.
  struct Block {
    uint64_t address, offset, size;
  };

  Result<void> read_header(uint64_t address);
  Result<HeapObject> managed(uint64_t offset, uint64_t size);
  Result<HeapObject> huge(std::string_view key);
  Result<HeapObject> read_at(uint64_t address, uint64_t size);
  Result<Block> find_block(uint64_t offset);
  Result<Block> child(const Block& indirect, uint64_t rows, uint64_t offset, bool& is_direct);
  Result<const std::string*> direct(const Block& block);
  Result<const std::string*> indirect(const Block& block, uint64_t rows);
  uint64_t row_size(uint64_t row) const;
  uint64_t direct_rows() const;

  Metadata* metadata_;
  uint64_t id_size_ = 0;
  uint64_t offset_size_ = 0, length_size_ = 0;  // of the numbers in an ID
  bool has_checksums_ = false;                  // of direct blocks
  uint64_t width_ = 0, start_size_ = 0, max_direct_ = 0;
  uint64_t root_ = kUndefined, root_rows_ = 0;
  uint64_t huge_tree_ = kUndefined;
  std::optional<std::map<uint64_t, std::pair<uint64_t, uint64_t>>> huge_;  // address and size by ID
  std::map<uint64_t, std::string> blocks_;                                 // read, by address
  Visited visited_;
};

/// The global heap: collections of the objects that elements of variable length refer to. Each is read once.
class GlobalHeap {
 public:
  /// `metadata` outlives it.
  explicit GlobalHeap(Metadata& metadata) : metadata_(metadata) {}

  /// The object `index` of the collection at `address`. Fails with corrupt.
  Result<HeapObject> object(uint64_t address, uint64_t index);

  Metadata& metadata() { return metadata_; }

 private:
  using Collection = std::map<uint64_t, std::pair<uint64_t, uint64_t>>;  // address and size of objects, by index

  Result<Collection> read(uint64_t address);

  Metadata& metadata_;
  std::map<uint64_t, Collection> collections_;
  Visited visited_;
};

}  // namespace weightfs::hdf5
