// A window of a matrix, reduced to a grid of cells: the numbers of a heat map.
#pragma once

#include <cstdint>
#include <vector>

#include "formats/tensor_list.h"
#include "numbers/elements.h"

namespace weightfs::numbers {

/// Two axes of a tensor, with fixed indices on the others: rows are down, columns to the right.
struct MatrixView {
  uint64_t offset = 0;  ///< of the first element
  uint64_t rows = 1;
  uint64_t columns = 1;
  uint64_t row_stride = 1;  ///< in elements
  uint64_t column_stride = 1;
};

/// The last axis to the right, and the others down, one after the other. A tensor without axes is a single element, one
/// with a single axis one row.
MatrixView matrix_of(ShapeView shape);

/// The axes `down` and `right`, with the indices of `fixed` on the others (which has one for each axis). Fails with
/// not_found for axes or indices that do not exist, or twice the same axis.
Result<MatrixView> matrix_of(ShapeView shape, size_t down, size_t right, const Shape& fixed);

/// Some rows and columns of a matrix.
struct Window {
  uint64_t row = 0;
  uint64_t column = 0;
  uint64_t rows = 0;
  uint64_t columns = 0;
};

/// Figures of the elements of one cell. All are NaN if one of the elements is NaN or infinite.
struct GridCell {
  float min;
  float max;
  float mean;
  float rms;
};

struct Grid {
  size_t rows = 0;
  size_t columns = 0;
  std::vector<GridCell> cells;  ///< row by row
  bool is_sample = false;       ///< whether some elements were left out
  uint64_t read = 0;            ///< elements that the cells are of

  const GridCell& at(size_t row, size_t column) const { return cells[row * columns + column]; }
};

/// The maximum number of cells of a side of a grid.
inline constexpr size_t kMaxGridSide = 4096;

struct GridOptions {
  size_t rows = 512;  ///< maximum number of cells, at most kMaxGridSide; a grid has no more than the window
  size_t columns = 512;
  bool sample = false;  ///< read at most 2 MiB: whole rows, for which the grid has at most 64 lines
  size_t threads = 1;
};

/// Reduces a window, which must be inside the matrix. Fails as reading fails.
Result<Grid> grid_of(const Elements& elements, const MatrixView& matrix, const Window& window,
                     const GridOptions& options, const CountBytes& count_bytes);

}  // namespace weightfs::numbers
