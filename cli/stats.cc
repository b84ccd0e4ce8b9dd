// weightfs stats: figures about the numbers of tensors.
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>

#include "base/text.h"
#include "cli/console/outcome.h"
#include "cli/console/progress.h"
#include "cli/findings/tensor_problems.h"
#include "cli/open_source.h"
#include "cli/verbs.h"
#include "formats/completeness.h"
#include "formats/verify.h"
#include "report/compare/common_weights.h"
#include "report/compare/select_tensors.h"
#include "report/stats/print.h"
#include "report/stats/screen.h"
#include "report/text/words.h"

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

// Compares the checksums of the files that the tensors are in.
void compare_files(const std::vector<compare::FoundModel>& models, const std::vector<compare::TensorPlace>& selected,
                   const compare::ShownModels& shown, const std::string& source, Outcome& outcome) {
  std::vector<std::vector<size_t>> by_model(models.size());
  for (const compare::TensorPlace& place : selected)
    for (const size_t i : shown.stored_tensors(place)) by_model[place.model].push_back(i);
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

stats::PrintOptions print_options(const StatsArguments& arguments) {
  return {.json = arguments.json,
          .channels = arguments.channels || arguments.axis,
          .detail = !arguments.patterns.empty(),
          .lora = !arguments.sample,
          .sort = arguments.sort,
          .top = arguments.top};
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
  const auto with_weights = compare::ShownModels::of(*models);
  if (!with_weights) return report_error(with_weights.error());
  const std::vector<compare::FoundModel>& shown = with_weights->models();
  const auto selected = select_tensors(shown, arguments.patterns);
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
  stats::TensorProblems problems(shown, *selected, arguments.patterns.empty());
  stats::Printer printer(print_options(arguments), models->empty() ? nullptr : models->front().model->budget);
  const auto groups = compute_figures(shown, *selected, options, [&](stats::TensorFigures one) {
    problems.note(one);
    return printer.add(std::move(one));
  });
  bar.clear();
  if (!groups) return report_error(groups.error());
  report_lacks(*models, selected->empty(), arguments, outcome);
  problems.report(outcome);
  if (arguments.channels || arguments.axis) problems.report_channels(arguments.axis, outcome);
  printer.end(*groups);
  if (const auto verified = opened->store->verify_complete(); !verified) outcome.fail_once(verified.error());
  if (!arguments.sample) compare_files(*models, *selected, *with_weights, source, outcome);
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
