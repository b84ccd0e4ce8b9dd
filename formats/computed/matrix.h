// A matrix whose rows are computed when they are read, and recently computed rows.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/source.h"

namespace weightfs::computed {

/// The most elements of a row: what a read computes at least, and keeps.
inline constexpr uint64_t kMaxColumns = uint64_t{1} << 18;

/// Whether a reader will probably read the rest of the stored tensors, too.
enum class Reading { some, all };

/// Computes rows. May be used by any thread.
class Matrix {
 public:
  virtual ~Matrix() = default;
  Matrix() = default;
  Matrix(const Matrix&) = delete;
  Matrix& operator=(const Matrix&) = delete;

  virtual uint64_t rows() const = 0;
  virtual uint64_t columns() const = 0;  ///< from 1 to kMaxColumns
  /// The shape of the tensor: the rows may be those of several matrices.
  virtual std::vector<uint64_t> shape() const { return {rows(), columns()}; }

  /// Computes the rows from `first` on that `out` has room for. Fails with corrupt if stored numbers contradict each
  /// other, and as reading the parts fails.
  virtual Result<void> compute(uint64_t first, std::span<float> out, Reading reading) const = 0;

  /// The stored tensors that it is computed from.
  virtual std::vector<SourcePtr> parts() const = 0;
};
using MatrixPtr = std::unique_ptr<const Matrix>;

/// Rows that were computed last, of all matrices of a model: at most 32 MB. A tile is a range of rows of at most 2 MB.
/// A kernel reads a file in pieces of 128 KB, and statistics read elements in blocks.
class RecentTiles {
 public:
  using Tile = std::shared_ptr<const std::vector<float>>;

  uint64_t next_matrix();  ///< a number that no other matrix has
  Tile find(uint64_t matrix, uint64_t tile);
  void add(uint64_t matrix, uint64_t tile, Tile values);

 private:
  struct Entry {
    uint64_t matrix;
    uint64_t tile;
    Tile values;
  };
  std::mutex mutex_;          // guards the rest
  std::list<Entry> entries_;  // the most recent first
  uint64_t matrices_ = 0;
};

/// The elements of a matrix in C order, as float32, little-endian.
SourcePtr source_of(MatrixPtr matrix, std::shared_ptr<RecentTiles> recent);

/// Columns of a stored matrix, in bytes.
struct Columns {
  uint64_t pitch;  ///< of its rows
  uint64_t begin;  ///< of the first row
  uint64_t width;
  uint64_t rows;
};

/// Copies the columns to `out`, row by row. Fails as reading fails.
Result<void> read_columns(const Source& source, const Columns& columns, std::span<std::byte> out, Reading reading);

/// Fills `out` from `offset`.
Result<void> read_part(const Source& source, uint64_t offset, std::span<std::byte> out, Reading reading);

/// The group of each of `columns` columns: groups of `size` columns, or as `index` lists them (int32 or int64), unless
/// it is null. Fails with corrupt if a group is not below `groups`.
struct GroupIndex {
  SourcePtr index;
  uint64_t size;
  uint64_t groups;
};
Result<std::vector<uint32_t>> groups_of(const GroupIndex& index, uint64_t columns, Reading reading);

}  // namespace weightfs::computed
