#include "numbers/grid.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

namespace weightfs::numbers {
namespace {

constexpr uint64_t kSampled = uint64_t{1} << 19;  // elements of a sample

// One axis of a window, in the order in which it is read.
struct Axis {
  uint64_t first;   // element of the tensor, relative to the matrix's offset
  uint64_t count;   // elements of the window
  uint64_t stride;  // in elements
  size_t cells;

  // The first element of the window in a cell, or behind it.
  uint64_t begin_of(uint64_t cell) const { return count / cells * cell + count % cells * cell / cells; }
};

void add(GridCell& cell, double value) {
  if (!std::isfinite(value)) {
    ++cell.special;
    return;
  }
  const auto number = static_cast<float>(value);
  cell.min = std::min(cell.min, number);
  cell.max = std::max(cell.max, number);
  cell.sum += value;
  cell.square += value * value;
  ++cell.count;
}

// Reduces the runs along the inner axis into a line of cells.
class Line {
 public:
  Line(const Elements& elements, const Axis& inner, uint64_t most_of_cell, const CountBytes& count_bytes)
      : elements_(elements), inner_(inner), most_of_cell_(most_of_cell), count_bytes_(count_bytes) {}

  // Adds the elements of the inner axis, which begins at `first` of the tensor, to the cells.
  Result<void> add_run(uint64_t first, std::span<GridCell> cells) const {
    if (most_of_cell_ == 0) return add_range(first, 0, inner_.count, cells);
    for (size_t cell = 0; cell < cells.size(); ++cell) {
      const uint64_t begin = inner_.begin_of(cell), end = inner_.begin_of(cell + 1);
      TRY_VOID(add_range(first, begin, std::min(end, begin + most_of_cell_), cells));
    }
    return {};
  }

 private:
  // The elements [begin, end) of the run.
  Result<void> add_range(uint64_t first, uint64_t begin, uint64_t end, std::span<GridCell> cells) const {
    if (begin == end) return {};
    const uint64_t from = first + begin * inner_.stride;
    const ElementRange range = {from, (end - begin - 1) * inner_.stride + 1};
    size_t cell = cell_of(begin);
    uint64_t next = inner_.begin_of(cell + 1);
    return elements_.for_each_block_of_values(range, count_bytes_, [&](uint64_t at, auto block) -> Result<void> {
      const uint64_t skipped = (at - from) % inner_.stride;
      uint64_t place = begin + (at - from) / inner_.stride + (skipped == 0 ? 0 : 1);
      for (uint64_t i = skipped == 0 ? 0 : inner_.stride - skipped; i < block.size(); ++place) {
        while (place >= next) next = inner_.begin_of(++cell + 1);
        const uint64_t until = std::min<uint64_t>(next - place, (block.size() - i + inner_.stride - 1) / inner_.stride);
        GridCell local = cells[cell];
        for (uint64_t k = 0; k < until; ++k) add(local, block[static_cast<size_t>(i + k * inner_.stride)]);
        cells[cell] = local;
        i += until * inner_.stride;
        place += until - 1;
      }
      return {};
    });
  }

  size_t cell_of(uint64_t place) const {
    size_t low = 0, high = inner_.cells;
    while (high - low > 1) {
      const size_t middle = low + (high - low) / 2;
      (inner_.begin_of(middle) <= place ? low : high) = middle;
    }
    return low;
  }

  const Elements& elements_;
  const Axis& inner_;
  uint64_t most_of_cell_;  // elements of a cell in a run; 0 without a limit
  const CountBytes& count_bytes_;
};

Grid transposed(Grid&& grid) {
  Grid out{grid.columns, grid.rows, std::vector<GridCell>(grid.cells.size()), grid.is_sample};
  for (size_t row = 0; row < grid.rows; ++row)
    for (size_t column = 0; column < grid.columns; ++column)
      out.cells[column * out.columns + row] = grid.at(row, column);
  return out;
}

// The cells of a line are along the inner axis, the lines along the outer one.
Result<Grid> reduce(const Elements& elements, const MatrixView& matrix, const Axis& outer, const Axis& inner,
                    const GridOptions& options, const CountBytes& count_bytes) {
  Grid grid{outer.cells, inner.cells, std::vector<GridCell>(outer.cells * inner.cells), false};
  grid.is_sample = options.sample && outer.count * inner.count > kSampled;
  const uint64_t runs = grid.is_sample ? 1 : outer.count;  // of a line, at most
  const uint64_t most_of_cell = grid.is_sample ? std::max<uint64_t>(kSampled / outer.cells / inner.cells, 1) : 0;
  TRY_VOID(in_parallel(outer.cells, options.threads, [&](uint64_t line) -> Result<void> {
    const uint64_t end = outer.begin_of(line + 1);
    const auto cells = std::span(grid.cells).subspan(static_cast<size_t>(line) * inner.cells, inner.cells);
    const Line reader(elements, inner, most_of_cell, count_bytes);
    uint64_t run = outer.begin_of(line);
    for (uint64_t i = 0; i < runs && run < end; ++i, ++run)
      TRY_VOID(reader.add_run(matrix.offset + outer.first + run * outer.stride + inner.first, cells));
    return {};
  }));
  return grid;
}

}  // namespace

MatrixView matrix_of(ShapeView shape) {
  MatrixView out;
  if (shape.empty()) return out;
  out.columns = out.row_stride = shape.back();
  for (const uint64_t size : shape.first(shape.size() - 1)) out.rows *= size;
  return out;
}

Result<MatrixView> matrix_of(ShapeView shape, size_t down, size_t right, const Shape& fixed) {
  if (down >= shape.size() || right >= shape.size())
    return failure(Code::not_found, fmt::format("the tensor has only {} axes", shape.size()));
  if (down == right) return failure(Code::not_found, "the two axes are the same");
  MatrixView out;
  uint64_t stride = 1;
  for (size_t axis = shape.size(); axis-- > 0; stride *= shape[axis]) {
    if (axis == down) {
      out.rows = shape[axis];
      out.row_stride = stride;
    } else if (axis == right) {
      out.columns = shape[axis];
      out.column_stride = stride;
    } else {
      if (fixed[axis] >= shape[axis])
        return failure(Code::not_found,
                       fmt::format("axis {} has no index {}: it has {}", axis, fixed[axis], shape[axis]));
      out.offset += fixed[axis] * stride;
    }
  }
  return out;
}

Result<Grid> grid_of(const Elements& elements, const MatrixView& matrix, const Window& window,
                     const GridOptions& options, const CountBytes& count_bytes) {
  if (window.rows == 0 || window.columns == 0) return Grid{};
  const auto cells_of = [](uint64_t count, size_t most) {
    return static_cast<size_t>(std::min<uint64_t>(count, std::min(most, kMaxGridSide)));
  };
  const Axis down = {window.row * matrix.row_stride, window.rows, matrix.row_stride,
                     cells_of(window.rows, options.rows)};
  const Axis right = {window.column * matrix.column_stride, window.columns, matrix.column_stride,
                      cells_of(window.columns, options.columns)};
  // The axis whose elements are closer to each other is read along.
  if (right.stride <= down.stride || down.count == 1)
    return reduce(elements, matrix, down, right, options, count_bytes);
  return reduce(elements, matrix, right, down, options, count_bytes).map(transposed);
}

}  // namespace weightfs::numbers
