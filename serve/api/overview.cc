// A number or a type for each tensor of a model, layer by kind, or for each expert.
#include <array>
#include <cmath>

#include "base/cancel.h"
#include "formats/summary/tensors/tensor_name.h"
#include "report/compare/select_tensors.h"
#include "report/plot/cells.h"
#include "report/text/map_of.h"
#include "serve/api/handlers.h"

namespace weightfs::api {
namespace {

constexpr const char* kStacked = "*";  // the column of tensors that stack all experts

// The cell of a row and a column, or that of all experts of the row.
const plot::Cells::Cell* cell_of(const plot::HeatMap& map, const plot::Cells& cells, size_t row, size_t column) {
  const auto* const cell = cells.find(map.down.names[row], map.right.names[column]);
  return cell != nullptr ? cell : cells.find(map.down.names[row], kStacked);
}

// The categories of a picture, with how many tensors they have.
List categories_of(const plot::HeatMap& map, const plot::Cells& cells) {
  std::vector<std::pair<uint64_t, uint64_t>> sums(map.categories.size());
  for (size_t row = 0; row < map.rows; ++row)
    for (size_t column = 0; column < map.columns; ++column) {
      const auto* const cell = cell_of(map, cells, row, column);
      const double value = map.at(row, column);
      if (cell == nullptr || !(value >= 0 && value < static_cast<double>(sums.size()))) continue;
      auto& [count, bytes] = sums[static_cast<size_t>(value)];
      count += cell->tensors;
      bytes += cell->bytes;
    }
  List out;
  for (size_t i = 0; i < sums.size(); ++i)
    out.emplace_back(map_of({{"name", map.categories[i]}, {"tensors", sums[i].first}, {"bytes", sums[i].second}}));
  return out;
}

// Whether all cells of a column are tensors of one dimension.
bool is_of_vectors(const plot::HeatMap& map, const plot::Cells& cells, size_t column) {
  for (size_t row = 0; row < map.rows; ++row) {
    const auto* const cell = cell_of(map, cells, row, column);
    if (cell != nullptr && !cell->are_vectors) return false;
  }
  return true;
}

// The numbers of a picture, with the tensors of each cell.
Content sheet_content(const plot::HeatMap& map, const plot::Cells& cells, uint64_t failed, bool is_sample) {
  List rows, unders, columns, vectors, values, indices, counts;
  for (const std::string& name : map.down.names) rows.emplace_back(name), unders.emplace_back(cells.under(name));
  for (size_t column = 0; column < map.columns; ++column) {
    columns.emplace_back(map.right.names[column]);
    vectors.emplace_back(is_of_vectors(map, cells, column));
  }
  for (size_t row = 0; row < map.rows; ++row) {
    List row_values, row_indices, row_counts;
    for (size_t column = 0; column < map.columns; ++column) {
      row_values.push_back(number_or_null(map.at(row, column)));
      const auto* const cell = cell_of(map, cells, row, column);
      row_indices.push_back(cell == nullptr ? Value(nullptr) : Value(cell->first));
      row_counts.emplace_back(cell == nullptr ? uint64_t{0} : cell->tensors);
    }
    values.emplace_back(std::move(row_values));
    indices.emplace_back(std::move(row_indices));
    counts.emplace_back(std::move(row_counts));
  }
  return json_content(map_of({{"rows", std::move(rows)},
                              {"unders", std::move(unders)},
                              {"columns", std::move(columns)},
                              {"vectors", std::move(vectors)},
                              {"values", std::move(values)},
                              {"tensors", std::move(indices)},
                              {"counts", std::move(counts)},
                              {"types", categories_of(map, cells)},
                              {"low", map.scale.low},
                              {"high", map.scale.high},
                              {"label", map.scale_label},
                              {"failed", failed},
                              {"sample", is_sample}}));
}

}  // namespace

Accepted<Content> overview(const Call& call) {
  constexpr std::array kMetrics = {plot::Metric::bits, plot::Metric::rms,      plot::Metric::largest,
                                   plot::Metric::mean, plot::Metric::sparsity, plot::Metric::type};
  const OpenModelPtr of = ACCEPT(call.model());
  const Mode mode = ACCEPT(mode_of(call.query));
  const auto metric =
      kMetrics[ACCEPT(call.query.choice("metric", {"bits", "rms", "largest", "mean", "sparsity", "type"}))];
  const bool is_read = metric != plot::Metric::bits && metric != plot::Metric::type;
  // Tensors beyond the first rows and columns are not read.
  std::vector<plot::NamedTensor> tensors;
  plot::Cells cells;
  const TensorList& all = of->model().tensors;
  for (size_t i = 0; i < all.size() && !is_cancelled(); ++i) {
    const std::string name = of->name(i);
    const auto* const cell = cells.add(plot::place_of(name), name, all, i);
    const bool is_left_out = mode == Mode::sample && cell != nullptr && cell->tensors > plot::kSampledExperts;
    if (cell != nullptr && !is_left_out && metric != plot::Metric::type) tensors.push_back(of->tensor(i));
  }
  if (is_cancelled()) return httpd::refused(503, "cancelled");
  if (metric == plot::Metric::type) return sheet_content(cells.types(""), cells, 0, false);
  plot::Choices choices = choices_of(call, tensors, mode);
  choices.keeps_vectors = true;
  choices.metric = metric;
  if (is_read) ACCEPT_VOID(check_amount(tensors, mode));
  uint64_t failed = 0;
  const auto map = ACCEPT(
      accepted(plot::overview_of("", tensors, {}, choices, [&](const plot::NamedTensor&, const Error&) { ++failed; })));
  if (is_cancelled()) return httpd::refused(503, "cancelled");
  return sheet_content(map, cells, failed, choices.sample && is_read);
}

Accepted<Content> experts(const Call& call) {
  const OpenModelPtr of = ACCEPT(call.model());
  const Mode mode = ACCEPT(mode_of(call.query));
  std::vector<plot::NamedTensor> tensors;
  plot::Cells cells;
  for (size_t i = 0; i < of->model().tensors.size(); ++i) {
    if (is_cancelled()) return httpd::refused(503, "cancelled");
    plot::NamedTensor tensor = of->tensor(i);
    if (!plot::has_experts(tensor)) continue;
    const auto expert = summary::expert_in(tensor.name);
    cells.add({layer_of(tensor.name), std::string(expert.value_or(kStacked))}, tensor.name, of->model().tensors, i);
    tensors.push_back(std::move(tensor));
  }
  ACCEPT_VOID(check_amount(tensors, mode));
  const plot::Choices choices = choices_of(call, tensors, mode);
  uint64_t failed = 0;
  const auto map = ACCEPT(
      accepted(plot::experts_of("", tensors, choices, [&](const plot::NamedTensor&, const Error&) { ++failed; })));
  if (is_cancelled()) return httpd::refused(503, "cancelled");
  return sheet_content(map, cells, failed, choices.sample);
}

}  // namespace weightfs::api
