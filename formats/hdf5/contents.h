// The bytes of a dataset as a Slice: a range of the file, a fill value, or decoded chunks. The index of the chunks is
// read when the dataset is, not when the file is opened.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "formats/format.h"
#include "formats/hdf5/dataset.h"

namespace weightfs::hdf5 {

/// What the datasets of a file need to be read later.
struct Origin {
  std::shared_ptr<const File> file;
  BlobsPtr blobs;
  int depth;         ///< of the blobs
  BudgetPtr budget;  ///< of the outermost container: what decoding takes is charged to it while it lasts
};

/// The bytes of storage for the file: those of the outermost container, if that has fewer because it is compressed.
uint64_t stored_bytes(const Origin& origin);

/// Fails with unsupported if a file may not have that many bytes that are decoded or filled, in all its datasets.
Result<void> check_expansion(const File& file, uint64_t size);

/// Fills `out` with the bytes from `offset` on of an element that is repeated; empty for zeros.
void fill_with(std::string_view element, uint64_t offset, std::span<std::byte> out);

/// The bytes of a dataset as they are stored, in C order. Chunks are decoded by the first read, once, by Origin::blobs.
/// Fails with corrupt or unsupported if the messages are invalid, a filter is not supported, the bytes are in other
/// files, or the dataset claims far more bytes than the file can hold.
Result<Slice> contents_of(const Origin& origin, const Dataset& dataset, uint64_t size);

/// Decodes the chunks of a dataset in C order, each when its first byte is needed. It keeps one row of chunks: in
/// memory if that is small, else in an unlinked temporary file.
Result<StreamPtr> chunk_stream(const Origin& origin, std::shared_ptr<const Dataset> dataset);

/// The bytes of the largest row of chunks, which is as long as the dataset in all dimensions but the first.
uint64_t row_of_chunks(const Dataset& dataset);

/// A stored chunk.
struct Chunk {
  uint64_t number;  ///< its place among the chunks of the dataset, in C order
  uint64_t address;
  uint64_t size;  ///< as stored
  uint32_t mask;  ///< bit i: filter i was skipped
};

/// The number of chunks along each dimension of this extent.
Shape grid_of(const Shape& dimensions, const Shape& chunk);

/// The bytes of a whole chunk; nothing on overflow.
std::optional<uint64_t> chunk_bytes(const Dataset& dataset);

/// The stored chunks of a dataset.
class Chunks {
 public:
  /// Reads the index. Fails with corrupt if it is damaged, has a chunk twice or far more than the file has bytes for,
  /// and if chunks overlap.
  static Result<Chunks> read(Metadata& metadata, const Origin& origin, const Dataset& dataset);

  /// Nothing if the chunk was never written.
  std::optional<Chunk> find(uint64_t number) const;

  /// Bit i: all stored chunks skipped filter i. 0 if none is stored.
  uint32_t skipped_by_all() const;

 private:
  std::vector<Chunk> stored_;               // sorted by number
  std::optional<Chunk> first_of_implicit_;  // all chunks are stored, one behind the other
};

/// An element of an array of chunks: its index in the array, its address, its stored size (0: that of a chunk without
/// filters), its mask.
using ArrayElement = std::function<Result<void>(uint64_t index, uint64_t address, uint64_t size, uint32_t mask)>;

/// Calls `element` with every element of the fixed array at `address` whose chunk was written. Fails with corrupt.
Result<void> for_each_in_fixed_array(Metadata& metadata, uint64_t address, const ArrayElement& element);

/// Calls `element` for an extensible array.
Result<void> for_each_in_extensible_array(Metadata& metadata, uint64_t address, const ArrayElement& element);

}  // namespace weightfs::hdf5
