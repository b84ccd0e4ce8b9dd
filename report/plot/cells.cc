#include "report/plot/cells.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <optional>

#include "base/text.h"
#include "fs/tree/listing.h"
#include "report/compare/select_tensors.h"

namespace weightfs::plot {
namespace {

constexpr size_t kMaxCategories = 16;
constexpr size_t kMaxTypes = 64;  // bits

// The number of a name; nothing for a new one if there are `most`.
std::optional<size_t> number_of(std::unordered_map<std::string, size_t>& numbers, const std::string& name,
                                size_t most) {
  if (const auto known = numbers.find(name); known != numbers.end()) return known->second;
  if (numbers.size() >= most) return std::nullopt;
  const size_t number = numbers.size();
  numbers.emplace(name, number);
  return number;
}

}  // namespace

const Cells::Cell* Cells::add(const Place& place, const std::string& name, const TensorList& tensors, size_t index) {
  const auto row = number_of(row_numbers_, place.layer, kMaxOverviewRows);
  const auto column = number_of(column_numbers_, place.rest, kMaxOverviewColumns);
  if (row && *row == rows_.size()) {
    rows_.push_back({printable(place.layer), {}, {}});
    shown_rows_.emplace(rows_.back().name, *row);
    if (const std::string layer = layer_of(name); !layer.empty()) rows_.back().under = name.substr(0, layer.size() + 1);
  }
  if (column && *column == columns_.size()) {
    columns_.push_back(printable(place.rest));
    shown_columns_.emplace(columns_.back(), *column);
  }
  is_cut_ = is_cut_ || !row || !column;
  if (!row || !column) return nullptr;
  std::vector<Cell>& cells = rows_[*row].cells;
  if (*column >= cells.size()) cells.resize(*column + 1);
  Cell& cell = cells[*column];
  if (cell.tensors++ == 0) cell.first = index;
  cell.bytes += listed_bytes(tensors, index);
  const DType* const dtype = tensors.dtype(index);
  const bool is_known = dtype != &kUnknownDType;
  cell.types |= type_of(tensors.is_refused(index) ? "refused" : is_known ? dtype->name : tensors[index].stored_dtype);
  cell.are_vectors = cell.are_vectors && is_vector(tensors.shape(index));
  return &cell;
}

uint64_t Cells::type_of(std::string_view type) {
  const auto known = std::ranges::find(types_, type);
  const auto number = static_cast<size_t>(known - types_.begin());
  if (known == types_.end() && types_.size() < kMaxTypes)
    types_.emplace_back(types_.size() + 1 < kMaxTypes ? type : "other types");
  return uint64_t{1} << std::min(number, kMaxTypes - 1);
}

const Cells::Cell* Cells::find(const std::string& row, const std::string& column) const {
  const auto r = shown_rows_.find(row);
  const auto c = shown_columns_.find(column);
  if (r == shown_rows_.end() || c == shown_columns_.end()) return nullptr;
  const std::vector<Cell>& cells = rows_[r->second].cells;
  return c->second < cells.size() && cells[c->second].tensors > 0 ? &cells[c->second] : nullptr;
}

std::string Cells::under(const std::string& row) const {
  const auto found = shown_rows_.find(row);
  return found == shown_rows_.end() ? "" : rows_[found->second].under;
}

std::string Cells::category_of(uint64_t types) const {
  const auto name_of = [&](int bit) { return printable(types_[static_cast<size_t>(bit)]); };
  const int first = std::countr_zero(types), last = 63 - std::countl_zero(types);
  if (std::popcount(types) > 2) return "several types";
  return first == last ? name_of(first) : fmt::format("{} and {}", name_of(first), name_of(last));
}

HeatMap Cells::types(const std::string& title) const {
  HeatMap map;
  map.title = title;
  map.rows = rows_.size();
  map.columns = columns_.size();
  if (is_cut_) map.note = fmt::format("first {} rows and {} columns", map.rows, map.columns);
  map.right = {"tensor", 0, static_cast<double>(map.columns), columns_};
  map.down = {"layer", 0, static_cast<double>(map.rows), {}};
  map.values.assign(map.rows * map.columns, kNoNumber);
  map.blank.assign(map.values.size(), true);
  for (size_t row = 0; row < map.rows; ++row) {
    map.down.names.push_back(rows_[row].name);
    for (size_t column = 0; column < rows_[row].cells.size(); ++column) {
      if (rows_[row].cells[column].tensors == 0) continue;
      std::string name = category_of(rows_[row].cells[column].types);
      auto found = std::ranges::find(map.categories, name);
      if (found == map.categories.end() && map.categories.size() + 1 >= kMaxCategories) {
        name = "other types";
        found = std::ranges::find(map.categories, name);
      }
      const size_t place = row * map.columns + column;
      map.blank[place] = false;
      map.values[place] = static_cast<double>(found - map.categories.begin());
      if (found == map.categories.end()) map.categories.push_back(name);
    }
  }
  map.scale = {Palette::cividis, 0, static_cast<double>(std::max<size_t>(map.categories.size(), 1) - 1)};
  map.scale_label = label_of(Metric::type);
  return map;
}

}  // namespace weightfs::plot
