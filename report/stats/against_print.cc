#include "report/stats/against_print.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>

#include "base/text.h"
#include "fs/tree/listing.h"
#include "report/stats/print.h"
#include "report/text/fitted_table.h"
#include "report/text/map_of.h"

namespace weightfs::stats {
namespace {

using compare::LayerDeviation;
using numbers::Deviation;

// A number that --sort orders by, the worst first.
struct SortKey {
  const char* name;
  bool is_low_bad;
  std::optional<double> (*number)(const Deviation& deviation);
};

constexpr std::array kSortKeys = {
    SortKey{"snr_db", true, [](const Deviation& of) { return of.snr_db(); }},
    SortKey{"relative_error", false, [](const Deviation& of) { return of.relative_error(); }},
    SortKey{"cosine", true, [](const Deviation& of) { return of.cosine(); }},
    SortKey{"max", false,
            [](const Deviation& of) { return of.has_numbers() ? std::optional(of.max()) : std::nullopt; }},
    SortKey{"mean", false, [](const Deviation& of) { return of.mean(); }},
    SortKey{"differing", false,
            [](const Deviation& of) { return std::optional(static_cast<double>(of.differing())); }}};

// Where a tensor is in the order of a column: those without a number come last.
std::pair<bool, double> place_in(const std::string& column, const AgainstFigures& one) {
  const auto* const key = std::ranges::find(kSortKeys, column, &SortKey::name);
  if (key == kSortKeys.end()) return {false, -static_cast<double>(elements_of(one.tensor.shape).value_or(0))};
  const auto number = one.deviation ? key->number(*one.deviation) : std::nullopt;
  return {!number, (key->is_low_bad ? 1 : -1) * number.value_or(0)};
}

std::string tab_joined(const std::vector<std::string>& cells) {
  std::string line;
  for (const std::string& cell : cells) line += (line.empty() ? "" : "\t") + tab_escaped(cell);
  return line;
}

std::string against_header() {
  std::vector<std::string> names = {"tensor", "reference", "dtype", "elements"};
  for (const Table::Column& column : compare::deviation_columns()) names.push_back(column.header);
  names.emplace_back("note");
  return tab_joined(names);
}

std::string against_line(const AgainstFigures& one) {
  std::vector<std::string> cells = {one.name, one.reference ? std::string(dtype_text(*one.reference)) : "",
                                    std::string(dtype_text(one.tensor)),
                                    std::to_string(elements_of(one.tensor.shape).value_or(0))};
  if (one.deviation)
    for (const Cell& cell : compare::deviation_cells(*one.deviation, one.tensor.shape)) cells.push_back(cell.raw);
  cells.resize(4 + compare::deviation_columns().size());
  cells.push_back(one.deviation ? "" : one.deviation.error().message);
  return tab_joined(cells);
}

Map against_value(const AgainstFigures& one) {
  List shape;
  for (const uint64_t size : one.tensor.shape) shape.emplace_back(size);
  Map out = map_of({{"name", one.name}, {"dtype", dtype_text(one.tensor)}, {"shape", std::move(shape)}});
  if (one.reference) out.append("reference_dtype", std::string(dtype_text(*one.reference)));
  if (one.deviation)
    out.append("stat", compare::deviation_value(*one.deviation, one.tensor.shape));
  else
    out.append("no_stat", one.deviation.error().message);
  return out;
}

Map layer_value(const LayerDeviation& layer) {
  return map_of({{"name", layer.name},
                 {"tensors", layer.tensors},
                 {"stat", compare::deviation_value(layer.deviation, std::nullopt)}});
}

}  // namespace

std::vector<std::string> against_sort_names() {
  std::vector<std::string> names = {"tensor", "elements"};
  for (const SortKey& key : kSortKeys) names.emplace_back(key.name);
  return names;
}

AgainstPrinter::AgainstPrinter(AgainstPrintOptions options, BudgetPtr budget)
    : options_(std::move(options)),
      budget_(std::move(budget)),
      is_terminal_(::isatty(STDOUT_FILENO) == 1),
      json_(json_on_stdout()) {}

Result<void> AgainstPrinter::add(AgainstFigures one) {
  if (options_.sort.empty() && (options_.json || !is_terminal_)) {
    print(one);
    return {};
  }
  // A vector that grows is there twice for a moment.
  if (budget_ != nullptr && !budget_->charge(Cost::kept, 2 * sizeof(AgainstFigures) + one.name.size()))
    return failure(too_many_kept(kept_.size()));
  kept_.push_back(std::move(one));
  return {};
}

void AgainstPrinter::begin() {
  if (std::exchange(has_begun_, true)) return;
  if (!options_.json) {
    std::printf("%s\n", against_header().c_str());
    return;
  }
  if (const auto& mapped = options_.names.mapped)
    json_.member("mapped_names", map_of({{"source", mapped->side == compare::Side::a ? "reference" : "model"},
                                         {"unmapped", mapped->unmapped}}));
  if (!options_.names.why_not.empty()) json_.member("names_not_mapped", options_.names.why_not);
  json_.begin_list("tensors");
}

void AgainstPrinter::print(const AgainstFigures& one) {
  begin();
  if (options_.top && printed_ >= *options_.top) return;
  ++printed_;
  if (options_.json)
    json_.item(against_value(one));
  else
    std::printf("%s\n", against_line(one).c_str());
}

void AgainstPrinter::sort_kept() {
  if (options_.sort == "tensor")
    std::ranges::stable_sort(kept_, {}, &AgainstFigures::name);
  else
    std::ranges::stable_sort(kept_, {}, [&](const AgainstFigures& one) { return place_in(options_.sort, one); });
}

void AgainstPrinter::end(const AgainstGroups& groups, const std::vector<std::string>& missing) {
  if (!options_.sort.empty()) sort_kept();
  if (is_terminal_ && !options_.json) {
    if (options_.top && *options_.top < kept_.size())
      kept_.erase(kept_.begin() + static_cast<ptrdiff_t>(*options_.top), kept_.end());
    return print_screen(groups);
  }
  begin();
  for (const AgainstFigures& one : kept_) print(one);
  if (!options_.json) return;
  json_.end_list();
  json_.begin_list("layers");
  for (const LayerDeviation& layer : groups.layers) json_.item(layer_value(layer));
  json_.end_list();
  json_.member("total", layer_value(groups.total));
  json_.begin_list("missing");
  for (const std::string& name : missing) json_.item(name);
  json_.end_list();
  json_.end();
}

void AgainstPrinter::print_screen(const AgainstGroups& groups) const {
  const info::Style style = info::style_of_stdout();
  std::vector<std::vector<std::string>> tensors, layers;
  for (const AgainstFigures& one : kept_)
    tensors.push_back(compare::screen_row(
        info::clean(one.name, style),
        one.reference ? compare::types_of(*one.reference, one.tensor) : std::string(dtype_text(one.tensor)),
        one.deviation ? &*one.deviation : nullptr, one.tensor.shape,
        one.deviation ? "" : info::clean(one.deviation.error().message, style)));
  if (groups.total.tensors > 1)
    tensors.push_back(compare::screen_row("total", "", &groups.total.deviation, std::nullopt, ""));
  if (groups.layers.size() > 1)
    for (const LayerDeviation& layer : groups.layers)
      layers.push_back(compare::screen_row(info::clean(layer.name, style), "", &layer.deviation, std::nullopt, ""));
  std::vector<info::FittedColumn> layer_columns = compare::screen_columns();
  layer_columns.front().name = "layer";
  auto [lines, is_complete] = info::fitted_table(compare::screen_columns(), tensors, style);
  const info::FittedLines grouped = info::fitted_table(layer_columns, layers, style);
  if (!layers.empty()) {
    lines.emplace_back();
    lines.insert(lines.end(), grouped.lines.begin(), grouped.lines.end());
  }
  if (!is_complete || !grouped.is_complete)
    for (std::string& line : info::left_out_lines(style)) lines.push_back(std::move(line));
  std::fputs(info::emit(lines, style).c_str(), stdout);
}

}  // namespace weightfs::stats
