// weightfs stats: figures about the numbers of tensors.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>

#include "base/text.h"
#include "cli/compare/statistics.h"
#include "cli/console/map_of.h"
#include "cli/console/outcome.h"
#include "cli/console/progress.h"
#include "cli/console/table.h"
#include "cli/open_source.h"
#include "cli/select_tensors.h"
#include "cli/verbs.h"
#include "fs/listing.h"

namespace weightfs {
namespace {

using compare::Numbers;
using compare::Statistics;

constexpr size_t kMaxThreads = 16;

struct StatsArguments {
  SourceInput input;
  std::vector<std::string> patterns;
  bool json = false;
};

// The result for one tensor.
struct TensorStatistics {
  std::string name;
  TensorView tensor;
  bool is_refused;
  Result<Statistics> statistics;
};

// A column for each bin, from the lowest number to the highest: its height is that of the bin against the highest bin.
std::string histogram_text(const Statistics::Finite& finite) {
  constexpr std::array kBlocks = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  const uint64_t highest = *std::max_element(finite.histogram.begin(), finite.histogram.end());
  std::string out;
  for (const uint64_t bin : finite.histogram) {
    const double part = static_cast<double>(bin) / static_cast<double>(highest);
    out += bin == 0 ? " " : kBlocks[std::min(static_cast<size_t>(part * kBlocks.size()), kBlocks.size() - 1)];
  }
  return out;
}

Cell number_cell(double value) { return {fmt::format("{:.5g}", value), fmt::format("{}", value)}; }

std::vector<Cell> statistics_row(const TensorStatistics& one) {
  const auto& [name, tensor, refused, result] = one;
  std::vector<Cell> row = {name, std::string(dtype_text(tensor)), shape_text(tensor.shape)};
  if (!result) {
    row.insert(row.end(), 7, Cell(""));
    row.emplace_back(result.error().message);
    return row;
  }
  if (result->finite) {
    for (const double value : {result->finite->min, result->finite->max, result->finite->mean, result->finite->std})
      row.push_back(number_cell(value));
  } else {
    row.insert(row.end(), 4, Cell(""));
  }
  for (const uint64_t count : {result->zeros, result->nan, result->inf}) row.emplace_back(std::to_string(count));
  std::string counts;
  if (result->finite)
    for (const uint64_t bin : result->finite->histogram) counts += fmt::format("{}{}", counts.empty() ? "" : ",", bin);
  row.emplace_back(result->finite ? histogram_text(*result->finite) : "", counts);
  return row;
}

void print_statistics(const std::vector<TensorStatistics>& all) {
  Table table({{"tensor"},
               {"dtype"},
               {"shape"},
               {"min", Align::right},
               {"max", Align::right},
               {"mean", Align::right},
               {"std", Align::right},
               {"zeros", Align::right},
               {"nan", Align::right},
               {"inf", Align::right},
               {"histogram"}});
  for (const TensorStatistics& one : all) table.add(statistics_row(one));
  table.print();
}

Value statistics_value(const TensorStatistics& one) {
  const auto& [name, tensor, refused, result] = one;
  Map out = map_of({{"name", name}, {"dtype", dtype_text(tensor)}});
  List shape;
  for (const uint64_t size : tensor.shape) shape.emplace_back(size);
  out.append("shape", std::move(shape));
  if (!result) {
    out.append("error", result.error().message);
    return out;
  }
  out.append("count", result->count);
  out.append("zeros", result->zeros);
  out.append("nan", result->nan);
  out.append("inf", result->inf);
  if (!result->finite) return out;
  out.append("min", result->finite->min);
  out.append("max", result->finite->max);
  out.append("mean", result->finite->mean);
  out.append("std", result->finite->std);
  List bins;
  for (const uint64_t bin : result->finite->histogram) bins.emplace_back(bin);
  out.append("histogram", std::move(bins));
  return out;
}

// Tensors of other types have no statistics, which is not an error. Those that are refused are in the completeness of
// their model, if this was checked.
void report_failures(const std::vector<TensorStatistics>& all, bool are_refused_reported, Outcome& outcome) {
  uint64_t count = 0;
  std::optional<Error> first;
  for (const TensorStatistics& one : all) {
    if (one.statistics || one.statistics.error().code == Code::unsupported) continue;
    const Error& error = one.statistics.error();
    outcome.note(error);
    if (one.is_refused && are_refused_reported) continue;
    if (count++ == 0) first = Error{error.code, fmt::format("tensor {}: {}", quoted(one.name), error.message)};
  }
  if (first)
    outcome.fail({first->code, fmt::format("{} of {} tensors cannot be read: {}", count, all.size(), first->message)});
}

std::vector<TensorStatistics> compute_statistics(const std::vector<compare::FoundModel>& models,
                                                 const std::vector<compare::TensorPlace>& selected) {
  std::vector<TensorStatistics> all;
  std::vector<Result<Numbers>> numbers;
  uint64_t total = 0;
  for (const compare::TensorPlace& place : selected) {
    numbers.push_back(Numbers::of(models[place.model].model->tensors[place.index]));
    if (numbers.back()) total += 2 * numbers.back()->bytes();
  }
  ProgressBar bar;
  std::atomic<uint64_t> done = 0;
  for (size_t i = 0; i < selected.size(); ++i) {
    const compare::FoundModel& found = models[selected[i].model];
    const TensorView tensor = found.model->tensors[selected[i].index];
    const std::string name = quoted(tensor.name);
    const auto count_bytes = [&](uint64_t bytes) { bar.show(done.fetch_add(bytes) + bytes, total, name); };
    const bool is_refused = found.model->tensors.is_refused(selected[i].index);
    all.push_back({full_name(found, tensor), tensor, is_refused, numbers[i].and_then([&](const Numbers& its) {
                     return compare::statistics_of(its, processors(kMaxThreads), count_bytes);
                   })});
  }
  return all;
}

Exit stats(StatsArguments& arguments) {
  const auto opened = open_source(arguments.input);
  if (!opened) return report_error(opened.error());
  const std::string source = printable_source(arguments.input.source);
  Outcome outcome;
  const auto models = compare::models_in(*opened->forest, [&](const std::string& path, const Error& error) {
    outcome.fail({error.code, fmt::format("{}: {}", compare::join_path(source, path), error.message)});
  });
  if (!models) return report_error(models.error());
  const auto selected = select_tensors(*models, arguments.patterns);
  if (!selected) return report_error(selected.error());
  if (selected->empty()) outcome.fail({Code::not_found, fmt::format("{}: has no tensors", source)});
  const auto all = compute_statistics(*models, *selected);
  if (arguments.json) {
    List list;
    for (const TensorStatistics& one : all) list.push_back(statistics_value(one));
    std::fputs(to_json(std::move(list)).c_str(), stdout);
  } else {
    print_statistics(all);
  }
  if (arguments.patterns.empty())
    for (const compare::FoundModel& found : *models)
      outcome.check(*found.model, compare::join_path(source, found.path));
  report_failures(all, arguments.patterns.empty(), outcome);
  if (const auto verified = opened->store->verify_complete(); !verified) outcome.fail_once(verified.error());
  return outcome.status();
}

}  // namespace

Command stats_command() {
  const auto given = std::make_shared<StatsArguments>();
  return {"stats",
          "print figures about the numbers of tensors: minimum, mean, histogram",
          {source_argument(given->input),
           arguments("TENSOR", "name of a tensor, or a pattern such as '*.bias' (default: all)", given->patterns)},
          source_options(given->input, {flag("json", "print a JSON array with an entry for each tensor", given->json)}),
          {},
          [given] { return stats(*given); }};
}

}  // namespace weightfs
