#include "numbers/grid.h"

#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>

namespace weightfs::numbers {
namespace {

// A sample: bytes, and runs of elements.
constexpr uint64_t kSampledBytes = uint64_t{2} << 20;
constexpr uint64_t kSampledRuns = 64;

// Elements that are further apart are read one by one.
constexpr uint64_t kFar = Elements::kBlock;

// One axis of a window, in the order in which it is read.
struct Axis {
  uint64_t first;   // element of the tensor, relative to the matrix's offset
  uint64_t count;   // elements of the window
  uint64_t stride;  // in elements
  size_t cells;

  // The first element of the window in a cell, or behind it.
  uint64_t begin_of(uint64_t cell) const { return count / cells * cell + count % cells * cell / cells; }
};

// The elements of a cell.
struct Sums {
  double min = std::numeric_limits<double>::infinity();
  double max = -std::numeric_limits<double>::infinity();
  double sum = 0;
  double square = 0;
  uint64_t count = 0;

  void add(double value) {
    min = std::min(min, value);
    max = std::max(max, value);
    sum += value;
    square += value * value;
    ++count;
  }

  GridCell cell() const {
    const auto number = static_cast<double>(count);
    // NaN and infinities make the sum NaN or infinite.
    if (!std::isfinite(sum) || count == 0) {
      constexpr float kNone = std::numeric_limits<float>::quiet_NaN();
      return {kNone, kNone, kNone, kNone};
    }
    return {static_cast<float>(min), static_cast<float>(max), static_cast<float>(sum / number),
            static_cast<float>(std::sqrt(square / number))};
  }
};

// Reduces the runs along the inner axis into a line of cells.
class Line {
 public:
  Line(const Elements& elements, const Axis& inner, uint64_t most_of_cell, const CountBytes& count_bytes)
      : elements_(elements), inner_(inner), most_of_cell_(most_of_cell), count_bytes_(count_bytes) {}

  // Adds the elements of the inner axis, which begins at `first` of the tensor, to the cells.
  Result<void> add_run(uint64_t first, std::span<Sums> cells) const {
    if (most_of_cell_ == 0) return add_range(first, 0, inner_.count, cells);
    for (size_t cell = 0; cell < cells.size(); ++cell) {
      const uint64_t begin = inner_.begin_of(cell), end = inner_.begin_of(cell + 1);
      TRY_VOID(add_range(first, begin, std::min(end, begin + most_of_cell_), cells));
    }
    return {};
  }

  // As add_run(), for `rows` runs that follow each other without gaps.
  Result<void> add_rows(uint64_t first, uint64_t rows, std::span<Sums> cells) const {
    const ElementRange range = {first, rows * inner_.count};
    return elements_.for_each_block_of_values(range, count_bytes_, [&](uint64_t at, auto block) -> Result<void> {
      uint64_t place = (at - first) % inner_.count;
      size_t cell = cell_of(place);
      while (!block.empty()) {
        const uint64_t left = cells.size() == 1 ? block.size() : inner_.begin_of(cell + 1) - place;
        const auto part = block.first(static_cast<size_t>(std::min<uint64_t>(left, block.size())));
        Sums local = cells[cell];
        for (const auto value : part) local.add(static_cast<double>(value));
        cells[cell] = local;
        block = block.subspan(part.size());
        place += part.size();
        if (++cell == cells.size()) cell = place = 0;
      }
      return {};
    });
  }

 private:
  // The elements [begin, end) of the run.
  Result<void> add_range(uint64_t first, uint64_t begin, uint64_t end, std::span<Sums> cells) const {
    if (begin == end) return {};
    if (inner_.stride >= kFar) return add_single(first, begin, end, cells);
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
        Sums local = cells[cell];
        for (uint64_t k = 0; k < until; ++k) local.add(block[static_cast<size_t>(i + k * inner_.stride)]);
        cells[cell] = local;
        i += until * inner_.stride;
        place += until - 1;
      }
      return {};
    });
  }

  Result<void> add_single(uint64_t first, uint64_t begin, uint64_t end, std::span<Sums> cells) const {
    size_t cell = cell_of(begin);
    for (uint64_t place = begin; place < end; ++place) {
      double value = 0;
      TRY_VOID(elements_.read(first + place * inner_.stride, std::span(&value, 1)));
      while (place >= inner_.begin_of(cell + 1)) ++cell;
      cells[cell].add(value);
      count_bytes_(elements_.bytes(1));
    }
    return {};
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
  Grid out{grid.columns, grid.rows, std::vector<GridCell>(grid.cells.size()), grid.is_sample, grid.read};
  for (size_t row = 0; row < grid.rows; ++row)
    for (size_t column = 0; column < grid.columns; ++column)
      out.cells[column * out.columns + row] = grid.at(row, column);
  return out;
}

// The elements that a run along an axis reads.
uint64_t run_length(const Axis& axis) { return axis.stride >= kFar ? axis.count : (axis.count - 1) * axis.stride + 1; }

// How much of a window is read.
struct Amount {
  uint64_t runs_of_line = 0;  // 0 without a limit
  uint64_t most_of_cell = 0;  // elements of a cell in a run; 0 without a limit
};

// A sample is of a few whole runs, because single elements cost a server as much; of a single run that is too long, of
// pieces. The grid has a line for each.
Amount sample(const Elements& elements, Axis& outer, Axis& inner) {
  const uint64_t most = kSampledBytes / elements.bytes(1);
  const uint64_t run = run_length(inner);
  if (outer.count <= most / run) return {};
  if (run <= most) {
    outer.cells = std::min<size_t>(outer.cells, static_cast<size_t>(std::min(most / run, kSampledRuns)));
    return {1, 0};
  }
  outer.cells = 1;
  inner.cells = std::min<size_t>(inner.cells, kSampledRuns);
  return {1, std::max<uint64_t>(most / inner.cells / std::min(inner.stride, kFar), 1)};
}

// The cells of a line are along the inner axis, the lines along the outer one.
Result<Grid> reduce(const Elements& all, const MatrixView& matrix, Axis outer, Axis inner, const GridOptions& options,
                    const CountBytes& count_bytes) {
  const Amount amount = options.sample ? sample(all, outer, inner) : Amount();
  const Elements elements = amount.runs_of_line > 0 ? all.for_samples() : all;
  Grid grid{outer.cells, inner.cells, std::vector<GridCell>(outer.cells * inner.cells), amount.runs_of_line > 0};
  std::atomic<uint64_t> read = 0;
  const auto add_line = [&](uint64_t line) -> Result<void> {
    const uint64_t first = outer.begin_of(line), end = outer.begin_of(line + 1);
    const uint64_t runs = amount.runs_of_line > 0 ? std::min(amount.runs_of_line, end - first) : end - first;
    std::vector<Sums> cells(inner.cells);
    const Line reader(elements, inner, amount.most_of_cell, count_bytes);
    const uint64_t begin = matrix.offset + outer.first + inner.first;
    if (inner.stride == 1 && outer.stride == inner.count && amount.most_of_cell == 0) {
      TRY_VOID(reader.add_rows(begin + first * outer.stride, runs, cells));
    } else {
      for (uint64_t run = first; run < first + runs; ++run) TRY_VOID(reader.add_run(begin + run * outer.stride, cells));
    }
    for (size_t i = 0; i < cells.size(); ++i) {
      grid.cells[static_cast<size_t>(line) * inner.cells + i] = cells[i].cell();
      read += cells[i].count;
    }
    return {};
  };
  TRY_VOID(in_parallel(outer.cells, options.threads, add_line));
  grid.read = read;
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
