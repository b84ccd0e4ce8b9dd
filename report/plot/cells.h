// The cells of an overview, with what is known of their tensors before one is read.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "formats/tensor_list.h"
#include "report/plot/make.h"
#include "report/plot/picture.h"

namespace weightfs::plot {

/// The most rows and columns of an overview.
inline constexpr size_t kMaxOverviewRows = 512;
inline constexpr size_t kMaxOverviewColumns = 128;

/// Collects tensors one by one: a model with a million of them needs no list.
class Cells {
 public:
  struct Cell {
    size_t first = 0;  ///< the index of a tensor
    uint64_t tensors = 0;
    uint64_t bytes = 0;
    uint64_t types = 0;       ///< a bit for each
    bool are_vectors = true;  ///< is_vector() of all of them
  };

  /// Adds a tensor of a list at its place. Its cell; null if that is beyond the last row or column.
  const Cell* add(const Place& place, const std::string& name, const TensorList& tensors, size_t index);

  /// The cell of a row and a column by their names as a picture has them; null if there is none.
  const Cell* find(const std::string& row, const std::string& column) const;
  /// How the names of a layer's tensors begin, as a prefix that only they have; empty for a row without a layer.
  std::string under(const std::string& row) const;

  /// The types as categories. Cells with more than two types have one category, and so have those after the first ones.
  HeatMap types(const std::string& title) const;

 private:
  using Numbers = std::unordered_map<std::string, size_t>;

  struct Row {
    std::string name;   // as it is shown
    std::string under;  // of a layer
    std::vector<Cell> cells;
  };

  uint64_t type_of(std::string_view type);
  std::string category_of(uint64_t types) const;

  std::vector<Row> rows_;
  std::vector<std::string> columns_;  // as they are shown
  Numbers row_numbers_, column_numbers_;
  Numbers shown_rows_, shown_columns_;
  std::vector<std::string> types_;
  bool is_cut_ = false;
};

}  // namespace weightfs::plot
