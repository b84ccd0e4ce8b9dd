// weightfs stats: figures about the numbers of tensors.
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <map>

#include "base/text.h"
#include "cli/compare/select_tensors.h"
#include "cli/console/outcome.h"
#include "cli/console/progress.h"
#include "cli/console/words.h"
#include "cli/open_source.h"
#include "cli/stats/screen.h"
#include "cli/verbs.h"
#include "formats/completeness.h"
#include "formats/verify.h"

namespace weightfs {
namespace {

constexpr size_t kMaxThreads = 16;

struct StatsArguments {
  SourceInput input;
  std::vector<std::string> patterns;
  bool json = false;
  bool exact = false;
  bool sample = false;
  bool channels = false;
  bool svd = false;
  std::optional<uint64_t> axis;
  std::optional<uint64_t> top;
  double threshold = numbers::StatisticsOptions().threshold;
  std::string sort;
};

// Tensors of other types have no statistics, which is not an error. Those that are refused are in the completeness of
// their model, if this was checked.
void report_failures(const std::vector<stats::TensorFigures>& all, const std::vector<compare::FoundModel>& models,
                     const std::vector<compare::TensorPlace>& selected, bool are_refused_reported, Outcome& outcome) {
  std::map<size_t, Error> refused;  // the reason of the first one of each model
  uint64_t count = 0;
  std::optional<Error> first;
  for (size_t i = 0; i < all.size(); ++i) {
    const stats::TensorFigures& one = all[i];
    if (one.statistics || one.statistics.error().code == Code::unsupported) continue;
    Error error = one.statistics.error();
    if (one.is_refused) {
      auto& reason = refused[selected[i].model];
      if (reason.message.empty()) reason = reason_of_refused(*models[selected[i].model].model, one.tensor.name);
      error = {reason.code, fmt::format("refused: {}", reason.message)};
    }
    outcome.note(error);
    if (one.is_refused && are_refused_reported) continue;
    if (count++ == 0) first = Error{error.code, fmt::format("tensor {}: {}", quoted(one.name), error.message)};
  }
  if (first)
    outcome.fail({first->code, fmt::format("{} of {} tensors cannot be read: {}", count, all.size(), first->message)});
}

void print(const stats::AllFigures& figures, const std::vector<stats::LoraFigures>& pairs,
           const StatsArguments& arguments) {
  if (arguments.json) {
    std::fputs(to_json(stats::to_value(figures, pairs)).c_str(), stdout);
    return;
  }
  const bool is_terminal = ::isatty(STDOUT_FILENO) == 1;
  const info::Style style = info::style_of_stdout();
  std::vector<std::string> lines;
  if (!is_terminal) {
    lines = arguments.channels || arguments.axis ? channel_tab_lines(figures) : tab_lines(figures);
    for (const std::string& line : lines) std::printf("%s\n", line.c_str());
    return;
  }
  if (figures.tensors.size() == 1 && !arguments.patterns.empty()) {
    lines = detail_lines(figures.tensors.front(), style);
  } else {
    lines = table_lines(figures, style);
    for (const stats::TensorFigures& one : figures.tensors) {
      if (one.channels.empty() && one.no_channels.empty()) continue;
      lines.emplace_back();
      lines.push_back(
          info::painted(info::shortened(info::clean(one.name, style), style.width, style), info::Paint::bold));
      for (const std::string& line : channel_lines(one, style)) lines.push_back(line);
    }
    for (const std::string& line : lora_lines(pairs, style)) lines.push_back(line);
  }
  std::fputs(info::emit(lines, style).c_str(), stdout);
}

Result<void> check(const StatsArguments& arguments) {
  const bool has_channels = arguments.channels || arguments.axis;
  if (arguments.sample && (has_channels || arguments.svd || arguments.exact))
    return failure(Code::unsupported,
                   "--sample cannot be combined with --exact, --per-channel, --axis and --svd "
                   "(see weightfs stats --help)");
  if (arguments.svd && !arguments.json && ::isatty(STDOUT_FILENO) != 1)
    return failure(Code::unsupported, "--svd needs --json in a pipe (see weightfs stats --help)");
  return {};
}

// Channels that were requested, and that a tensor cannot have.
void report_channels(const std::vector<stats::TensorFigures>& all, const StatsArguments& arguments, Outcome& outcome) {
  if (!arguments.channels && !arguments.axis) return;
  uint64_t count = 0;
  bool has_axis = false;
  for (const stats::TensorFigures& one : all) {
    const size_t axes = one.tensor.shape.size();
    has_axis = has_axis || (axes >= 2 && arguments.axis.value_or(0) < axes);
    if (!one.no_channels.empty() && count++ == 0)
      outcome.fail({Code::unsupported, fmt::format("tensor {}: {}", quoted(one.name), one.no_channels)});
  }
  if (!has_axis)
    outcome.fail({Code::not_found, arguments.axis ? fmt::format("no matrix has an axis {}", *arguments.axis)
                                                  : "no tensor has two axes"});
}

// Compares the checksums of the files that the tensors are in.
void compare_files(const std::vector<compare::FoundModel>& models, const std::vector<compare::TensorPlace>& selected,
                   const std::string& source, Outcome& outcome) {
  std::vector<std::vector<size_t>> by_model(models.size());
  for (const compare::TensorPlace& place : selected) by_model[place.model].push_back(place.index);
  for (size_t i = 0; i < models.size(); ++i)
    if (const auto compared = compare_files_of_tensors(*models[i].model, by_model[i]);
        !compared && !by_model[i].empty())
      outcome.fail(
          {compared.error().code, fmt::format("{}: {}", join_path(source, models[i].path), compared.error().message)});
}

stats::FigureOptions figure_options(const StatsArguments& arguments, size_t tensors) {
  const bool is_channels = arguments.channels || arguments.axis;
  const bool is_detail = tensors == 1 && !arguments.patterns.empty() && ::isatty(STDOUT_FILENO) == 1;
  return {.statistics = {.exact = arguments.exact,
                         .sample = arguments.sample,
                         .threshold = arguments.threshold,
                         .threads = processors(kMaxThreads)},
          .scales = !arguments.sample && (is_detail || arguments.json),
          .channels = is_channels || (is_detail && !arguments.json && !arguments.sample),
          .singular_values = arguments.svd,
          .axis = arguments.axis,
          .largest = is_channels ? size_t{20} : size_t{5}};
}

// Sorts the tensors and keeps the first ones, as the options ask.
void order(std::vector<stats::TensorFigures>& tensors, const StatsArguments& arguments) {
  if (!arguments.sort.empty()) sort_by(arguments.sort, tensors);
  if (arguments.top && *arguments.top < tensors.size())
    tensors.erase(tensors.begin() + static_cast<ptrdiff_t>(*arguments.top), tensors.end());
}

// What the models lack; that they have no tensors, if that is all.
void report_lacks(const std::vector<compare::FoundModel>& models, bool are_empty, const StatsArguments& arguments,
                  Outcome& outcome) {
  const std::string source = printable_source(arguments.input.source);
  if (arguments.patterns.empty())
    for (const compare::FoundModel& found : models) outcome.check(*found.model, join_path(source, found.path));
  if (const auto reason = reason_of_incomplete(models, arguments.patterns)) outcome.fail(*reason);
  if (are_empty && outcome.status() == Exit::ok)
    outcome.fail({Code::not_found, fmt::format("{}: has no tensors", source)});
}

Exit run_stats(StatsArguments& arguments) {
  if (const auto checked = check(arguments); !checked) return report_error(checked.error(), Exit::usage);
  const auto opened = open_source(arguments.input);
  if (!opened) return report_error(opened.error());
  const std::string source = printable_source(arguments.input.source);
  Outcome outcome;
  const auto models = compare::models_in(*opened->forest, [&](const std::string& path, const Error& error) {
    outcome.fail({error.code, fmt::format("{}: {}", join_path(source, path), error.message)});
  });
  if (!models) return report_error(models.error());
  const auto selected = select_tensors(*models, arguments.patterns);
  // A tensor may be in a model that cannot be read, which was reported.
  if (!selected) {
    const Exit status = report_error(selected.error());
    return outcome.status() == Exit::ok ? status : outcome.status();
  }
  if (arguments.svd && !arguments.json && (selected->size() != 1 || arguments.patterns.empty()))
    return report_error({Code::unsupported, "--svd needs --json, or one TENSOR (see weightfs stats --help)"},
                        Exit::usage);
  ProgressBar bar;
  stats::FigureOptions options = figure_options(arguments, selected->size());
  options.report = [&bar](uint64_t done, uint64_t total, const std::string& name) { bar.show(done, total, name); };
  auto figures = compute_figures(*models, *selected, options);
  bar.clear();
  if (!figures) return report_error(figures.error());
  report_lacks(*models, selected->empty(), arguments, outcome);
  report_failures(figures->tensors, *models, *selected, arguments.patterns.empty(), outcome);
  report_channels(figures->tensors, arguments, outcome);
  // A table in a pipe has no place for them.
  const bool has_lora = !arguments.sample && (arguments.json || ::isatty(STDOUT_FILENO) == 1);
  const auto pairs = has_lora ? stats::lora_figures(figures->tensors) : std::vector<stats::LoraFigures>();
  order(figures->tensors, arguments);
  print(*figures, pairs, arguments);
  if (const auto verified = opened->store->verify_complete(); !verified) outcome.fail_once(verified.error());
  if (!arguments.sample) compare_files(*models, *selected, source, outcome);
  return outcome.status();
}

std::optional<double> parse_threshold(const std::string& text) {
  const auto number = parse_number<double>(text);
  return number && *number >= 0 ? number : std::nullopt;
}

std::vector<Choice<std::string>> sort_choices() {
  static const std::vector<std::string> names = stats::column_names();
  std::vector<Choice<std::string>> choices;
  for (const std::string& name : names)
    if (name != "histogram" && name != "flags") choices.push_back({name, name});
  return choices;
}

}  // namespace

Command stats_command() {
  const auto given = std::make_shared<StatsArguments>();
  const auto count = [](const std::string& text) { return parse_number<uint64_t>(text); };
  return {
      "stats",
      "print figures about the numbers of tensors: moments, quantiles, NaN, histogram",
      {source_argument(given->input),
       arguments("TENSOR", "name of a tensor, or a pattern such as '*.bias' (default: all)", given->patterns)},
      source_options(
          given->input,
          {choice("sort", "COLUMN", "order of the tensors: numbers from the largest on (default: as stored)",
                  "a column", sort_choices(), given->sort),
           parsed("top", "N", "print only the first N tensors (default: all)", "is not a number", given->top, count),
           flag("exact", "read tensors twice, so that quantiles and histograms of all types are exact", given->exact),
           flag("sample", "read at most 64 rows of each tensor", given->sample),
           flag("per-channel", "print the largest channels of the first and the last axis", given->channels),
           parsed("axis", "N", "print the largest channels of this axis only (default: both)", "is not an axis",
                  given->axis, count),
           flag("svd", "compute singular values, of matrices of at most 4 Mi elements (--json, or one TENSOR)",
                given->svd),
           parsed("threshold", "X", "count absolutes below this as near zero (default: 1e-6)",
                  "is not a number of at least 0", given->threshold, parse_threshold),
           flag("json", "print a JSON object: tensors, layers and their total", given->json)}),
      {},
      [given] { return run_stats(*given); }};
}

}  // namespace weightfs
