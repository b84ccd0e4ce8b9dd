// Heat maps: which elements a cell has.
#include "numbers/grid.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/numbers.h"

namespace weightfs::numbers::grid_test {
namespace {

Elements elements_of(size_t count) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = static_cast<float>(i);
  return Elements::of(test::float32_tensor("t", values)).value();
}

Grid grid(const Elements& elements, const MatrixView& matrix, const Window& window, const GridOptions& options) {
  return grid_of(elements, matrix, window, options, [](uint64_t) {}).value();
}

TEST(Grid, CellsHaveTheElementsOfTheirWindow) {
  const MatrixView matrix = matrix_of(Shape{4, 6});
  const Grid found = grid(elements_of(24), matrix, {0, 0, 4, 6}, {.rows = 2, .columns = 3});
  ASSERT_EQ(found.rows, 2u);
  ASSERT_EQ(found.columns, 3u);
  EXPECT_EQ(found.at(0, 0).min, 0);
  EXPECT_EQ(found.at(0, 0).max, 7);
  EXPECT_EQ(found.at(0, 0).mean, 3.5);
  EXPECT_EQ(found.at(1, 2).min, 16);
  EXPECT_EQ(found.at(1, 2).max, 23);
  EXPECT_FLOAT_EQ(found.at(1, 2).rms, std::sqrt((16 * 16 + 17 * 17 + 22 * 22 + 23 * 23) / 4.0F));
}

// Any size of the grid: every element is in the cell that its place says, and in no other.
TEST(Grid, AnOutlierIsInItsCellAtEveryZoom) {
  constexpr uint64_t kRows = 37, kColumns = 53, kRow = 20, kColumn = 31;
  std::vector<float> values(kRows * kColumns, 1);
  values[kRow * kColumns + kColumn] = 100;
  const Elements elements = Elements::of(test::float32_tensor("t", values)).value();
  for (const size_t rows : {1u, 2u, 5u, 36u, 37u, 500u}) {
    for (const size_t columns : {1u, 3u, 52u, 53u, 99u}) {
      const Grid found = grid(elements, matrix_of(Shape{kRows, kColumns}), {0, 0, kRows, kColumns},
                              {.rows = rows, .columns = columns, .threads = 2});
      for (size_t row = 0; row < found.rows; ++row) {
        for (size_t column = 0; column < found.columns; ++column) {
          const GridCell& cell = found.at(row, column);
          const bool has_it =
              row == ((kRow + 1) * found.rows - 1) / kRows && column == ((kColumn + 1) * found.columns - 1) / kColumns;
          EXPECT_EQ(cell.max, has_it ? 100 : 1) << rows << "x" << columns << ": " << row << ", " << column;
        }
      }
    }
  }
}

TEST(Grid, AxesAreChosenAndTheOthersFixed) {
  const Shape shape = {2, 3, 4};
  const Elements elements = elements_of(24);
  const auto whole = [&](size_t down, size_t right, const Shape& fixed) {
    const MatrixView matrix = matrix_of(shape, down, right, fixed).value();
    const Grid found = grid(elements, matrix, {0, 0, matrix.rows, matrix.columns}, {});
    std::vector<float> values;
    for (const GridCell& cell : found.cells) values.push_back(cell.min);
    return values;
  };
  EXPECT_EQ(whole(1, 2, {1, 0, 0}), (std::vector<float>{12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23}));
  EXPECT_EQ(whole(2, 1, {1, 0, 0}), (std::vector<float>{12, 16, 20, 13, 17, 21, 14, 18, 22, 15, 19, 23}));
  EXPECT_EQ(whole(0, 1, {0, 0, 3}), (std::vector<float>{3, 7, 11, 15, 19, 23}));
  EXPECT_EQ(whole(1, 0, {0, 0, 3}), (std::vector<float>{3, 15, 7, 19, 11, 23}));
  EXPECT_EQ(matrix_of(shape, 0, 3, {0, 0, 0}).error().code, Code::not_found);
  EXPECT_EQ(matrix_of(shape, 1, 1, {0, 0, 0}).error().code, Code::not_found);
  EXPECT_EQ(matrix_of(shape, 0, 1, {0, 0, 4}).error().code, Code::not_found);
}

TEST(Grid, ElementsThatAreFarApartAreReadOneByOne) {
  const Shape shape = {3, 5, 20'000};
  const Elements elements = elements_of(300'000);
  std::atomic<uint64_t> bytes = 0;
  const Grid found =
      grid_of(elements, matrix_of(shape, 0, 1, {0, 0, 7}).value(), {0, 0, 3, 5}, {.sample = true}, [&](uint64_t more) {
        bytes += more;
      }).value();
  EXPECT_EQ(bytes, 15u * 4);
  EXPECT_FALSE(found.is_sample);
  EXPECT_EQ(found.at(2, 3).max, 2 * 100'000 + 3 * 20'000 + 7);
}

TEST(Grid, WindowIsPartOfTheMatrix) {
  const Grid found = grid(elements_of(100), matrix_of(Shape{10, 10}), {2, 3, 2, 2}, {});
  EXPECT_EQ(found.at(0, 0).min, 23);
  EXPECT_EQ(found.at(1, 1).min, 34);
}

TEST(Grid, CellWithASpecialNumberIsNan) {
  const Elements elements = Elements::of(test::float32_tensor("t", {1, NAN, -INFINITY, 2, 3, 4})).value();
  const Grid found = grid(elements, matrix_of(Shape{1, 6}), {0, 0, 1, 6}, {.rows = 1, .columns = 3});
  for (const size_t column : {0u, 1u}) {
    EXPECT_TRUE(std::isnan(found.at(0, column).min));
    EXPECT_TRUE(std::isnan(found.at(0, column).rms));
  }
  EXPECT_EQ(found.at(0, 2).mean, 3.5);
}

TEST(Grid, ScalarsAndVectorsAreRows) {
  EXPECT_EQ(grid(elements_of(1), matrix_of(Shape{}), {0, 0, 1, 1}, {}).at(0, 0).max, 0);
  EXPECT_EQ(grid(elements_of(5), matrix_of(Shape{5}), {0, 0, 1, 5}, {}).at(0, 4).max, 4);
  EXPECT_EQ(grid(elements_of(0), matrix_of(Shape{0, 5}), {0, 0, 0, 5}, {}).cells.size(), 0u);
}

TEST(Grid, SampleReadsWholeRowsOfAtMost2Mib) {
  const auto sampled = [](uint64_t rows, uint64_t columns) {
    std::atomic<uint64_t> bytes = 0;
    const Elements elements = elements_of(static_cast<size_t>(rows * columns));
    Grid found = grid_of(elements, matrix_of(Shape{rows, columns}), {0, 0, rows, columns},
                         {.rows = 512, .columns = 200, .sample = true}, [&](uint64_t more) { bytes += more; })
                     .value();
    EXPECT_TRUE(found.is_sample);
    EXPECT_LE(bytes, uint64_t{2} << 20);
    for (const GridCell& cell : found.cells) EXPECT_FALSE(std::isnan(cell.mean));
    return found;
  };
  EXPECT_EQ(sampled(2048, 2048).rows, 64u);
  EXPECT_EQ(sampled(2048, 2048).at(63, 0).min, 2016 * 2048);
  EXPECT_EQ(sampled(20, 100'000).rows, 5u);
  EXPECT_EQ(sampled(2, 1'000'000).columns, 64u);
  const Elements small = elements_of(100);
  EXPECT_FALSE(grid(small, matrix_of(Shape{10, 10}), {0, 0, 10, 10}, {.sample = true}).is_sample);
}

}  // namespace
}  // namespace weightfs::numbers::grid_test
