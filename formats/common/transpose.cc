#include "formats/common/transpose.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

namespace weightfs {
namespace {

constexpr size_t kVector = 16;  // bytes of a vector, which every processor of 64 bits has
constexpr size_t kCacheLine = 64;
constexpr size_t kTileRow = 1024;  // bytes of the rows that are written at once: whole lines, and few pages

// The elements of a vector, and the rows and columns of a block that is transposed in registers.
template <class T>
constexpr size_t kSide = kVector / sizeof(T);

template <class T>
struct VectorOf {
  using Type [[gnu::vector_size(kVector)]] = T;
};

template <class T>
using Vector = typename VectorOf<T>::Type;

// The elements of the first (`kFrom` is 0) or the second (it is half of a vector's elements) halves of two vectors, by
// turns.
template <class T, size_t kFrom, size_t... kIndex>
Vector<T> interleave(Vector<T> first, Vector<T> second, std::index_sequence<kIndex...>) {
  return __builtin_shufflevector(first, second, (kFrom + kIndex / 2 + kIndex % 2 * kSide<T>)...);
}

// A block of kSide rows of `from` becomes as many rows of `to`. Interleaving each vector with the one half of the block
// behind it moves one bit of the row's number to the column's; after as many steps as the numbers have bits, rows are
// columns.
template <class T>
void transpose_block(const ConstPlane& from, const Plane& to) {
  constexpr std::make_index_sequence<kSide<T>> kIndices;
  std::array<Vector<T>, kSide<T>> rows;
#pragma GCC unroll 16
  for (size_t i = 0; i < rows.size(); ++i) std::memcpy(&rows[i], from.begin + i * from.pitch, kVector);
#pragma GCC unroll 4
  for (size_t step = 1; step < rows.size(); step *= 2) {
    const auto before = rows;
#pragma GCC unroll 8
    for (size_t i = 0; i < rows.size() / 2; ++i) {
      rows[2 * i] = interleave<T, 0>(before[i], before[i + rows.size() / 2], kIndices);
      rows[2 * i + 1] = interleave<T, kSide<T> / 2>(before[i], before[i + rows.size() / 2], kIndices);
    }
  }
#pragma GCC unroll 16
  for (size_t i = 0; i < rows.size(); ++i) std::memcpy(to.begin + i * to.pitch, &rows[i], kVector);
}

// A tile of kSide rows and at most kTileRow bytes. It is transposed into a buffer and then copied row by row: rows that
// are powers of two apart would evict each other's lines from the cache before they are complete.
template <class T>
void transpose_tile(const ConstPlane& from, const Plane& to, uint64_t columns) {
  constexpr uint64_t kPitch = kTileRow + kCacheLine;
  std::array<std::byte, kSide<T> * kPitch> buffer;
  for (uint64_t done = 0; done < columns; done += kSide<T>) {
    const uint64_t column = std::min(done, columns - kSide<T>);  // the last block overlaps the one before
    transpose_block<T>({from.begin + column * from.pitch, from.pitch}, {buffer.data() + column * sizeof(T), kPitch});
  }
  for (uint64_t row = 0; row < kSide<T>; ++row)
    std::memcpy(to.begin + row * to.pitch, buffer.data() + row * kPitch, columns * sizeof(T));
}

// The lines of the next tile: the processor does not foresee writes to rows that are far apart. Inlined,
// because gcc removes calls of a function that only prefetches.
[[gnu::always_inline]] inline void prefetch(const Plane& to, uint64_t rows, uint64_t bytes) {
  for (uint64_t row = 0; row < rows; ++row)
    for (uint64_t at = 0; at < bytes + kCacheLine - 1; at += kCacheLine)
      __builtin_prefetch(to.begin + row * to.pitch + std::min(at, bytes - 1), 1);
}

// Where the plane does not end with a tile or a block, the last one overlaps the one before.
template <class T>
void transpose_plane(const ConstPlane& from, const Plane& to, uint64_t rows, uint64_t columns) {
  constexpr uint64_t kTileColumns = kTileRow / sizeof(T);
  for (uint64_t tile = 0; tile < columns; tile += kTileColumns) {
    const uint64_t column = std::min(tile, columns - kSide<T>);
    const uint64_t width = std::min(kTileColumns, columns - column);
    for (uint64_t block = 0; block < rows; block += kSide<T>) {
      const uint64_t row = std::min(block, rows - kSide<T>);
      const Plane out{to.begin + row * to.pitch + column * sizeof(T), to.pitch};
      const uint64_t next = std::min<uint64_t>(rows - row - kSide<T>, kSide<T>);
      prefetch({out.begin + kSide<T> * to.pitch, to.pitch}, next, width * sizeof(T));
      transpose_tile<T>({from.begin + column * from.pitch + row * sizeof(T), from.pitch}, out, width);
    }
  }
}

template <class T>
bool transpose_in_blocks(const ConstPlane& from, const Plane& to, uint64_t rows, uint64_t columns) {
  if (rows < kSide<T> || columns < kSide<T>) return false;
  transpose_plane<T>(from, to, rows, columns);
  return true;
}

}  // namespace

bool transpose(uint32_t width, const ConstPlane& from, const Plane& to, uint64_t rows, uint64_t columns) {
  switch (width) {
    case 1:
      return transpose_in_blocks<uint8_t>(from, to, rows, columns);
    case 2:
      return transpose_in_blocks<uint16_t>(from, to, rows, columns);
    case 4:
      return transpose_in_blocks<uint32_t>(from, to, rows, columns);
    case 8:
      return transpose_in_blocks<uint64_t>(from, to, rows, columns);
    default:
      return false;
  }
}

}  // namespace weightfs
