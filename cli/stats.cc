// weightfs stats: figures about the numbers of tensors.
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>

#include "base/text.h"
#include "cli/console/outcome.h"
#include "cli/console/progress.h"
#include "cli/findings/tensor_problems.h"
#include "cli/open_source.h"
#include "cli/options/names_option.h"
#include "cli/verbs.h"
#include "formats/completeness.h"
#include "formats/verify.h"
#include "report/compare/common_weights.h"
#include "report/compare/select_tensors.h"
#include "report/inspect/single_model.h"
#include "report/stats/against_print.h"
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
  std::optional<double> threshold;
  std::string sort;
  std::string against;
  compare::NameMatching names = compare::NameMatching::mapped;
};

Error stats_usage(const std::string& what) { return {Code::unsupported, what + " (see weightfs stats --help)"}; }

// --sort takes the columns of both tables.
Result<void> check_sort(const StatsArguments& arguments) {
  const auto names = arguments.against.empty() ? stats::column_names() : stats::against_sort_names();
  if (arguments.sort.empty() || std::ranges::find(names, arguments.sort) != names.end()) return {};
  return failure(stats_usage(fmt::format("--sort {} {} --against", arguments.sort,
                                         arguments.against.empty() ? "needs" : "is not a column of")));
}

Result<void> check(const StatsArguments& arguments) {
  const bool has_channels = arguments.channels || arguments.axis;
  TRY_VOID(check_sort(arguments));
  if (!arguments.against.empty() &&
      (arguments.sample || arguments.exact || has_channels || arguments.svd || arguments.threshold))
    return failure(stats_usage(
        "--against cannot be combined with --sample, --exact, --per-channel, --axis, --svd and --threshold"));
  if (arguments.against.empty() && arguments.names != compare::NameMatching::mapped)
    return failure(stats_usage("--names needs --against MODEL"));
  if (arguments.sample && (has_channels || arguments.svd || arguments.exact))
    return failure(stats_usage("--sample cannot be combined with --exact, --per-channel, --axis and --svd"));
  if (arguments.svd && !arguments.json && ::isatty(STDOUT_FILENO) != 1)
    return failure(stats_usage("--svd needs --json in a pipe"));
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
                         .threshold = arguments.threshold.value_or(numbers::StatisticsOptions().threshold),
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

// Tensors that cannot be read, of which the first is reported. A type without numbers, another shape and a lacking
// counterpart are no errors.
class UnreadTensors {
 public:
  void note(const stats::AgainstFigures& one) {
    ++tensors_;
    if (one.deviation) return;
    const Error& error = one.deviation.error();
    if (error.code == Code::unsupported || error.code == Code::not_found) return;
    if (unread_++ == 0) first_ = {error.code, fmt::format("tensor {}: {}", quoted(one.name), error.message)};
  }
  void report(Outcome& outcome) const {
    if (unread_ > 0)
      outcome.fail(
          {first_.code, fmt::format("{} of {} tensors cannot be compared: {}", unread_, tensors_, first_.message)});
  }

 private:
  uint64_t tensors_ = 0;
  uint64_t unread_ = 0;
  Error first_;
};

// The tensors that only the reference has, in a line for people; all of them in JSON.
std::vector<std::string> report_missing(const Model& reference, const std::vector<size_t>& missing, bool is_json,
                                        const std::string& source) {
  constexpr size_t kNamed = 3;
  std::vector<std::string> names, first;
  for (const size_t i : missing) {
    if (names.size() == kNamed && !is_json) break;
    names.push_back(full_name(reference.tensors[i]));
  }
  for (size_t i = 0; i < std::min(names.size(), kNamed); ++i) first.push_back(quoted(names[i]));
  const size_t others = missing.size() - first.size();
  if (!missing.empty())
    log_to_stderr(fmt::format("{}: {} missing, which the reference has: {}{}", source,
                              counted(missing.size(), "tensor is", "tensors are"), enumerated(first),
                              others == 0 ? "" : fmt::format(" and {} more", others)));
  return names;
}

Result<Exit> stats_against(StatsArguments& arguments) {
  const std::vector<std::string> sources = {arguments.against, arguments.input.source};
  const auto opened = TRY(open_each_source(sources, arguments.input));
  const SingleModel reference = TRY(single_model(*opened.forests[0], printable_source(sources[0])));
  const SingleModel model = TRY(single_model(*opened.forests[1], printable_source(sources[1])));
  const auto compared = TRY(compare::comparable_models(reference.model, model.model, arguments.names));
  const std::string line =
      compare::names_sentence(compared.names, printable_source(sources[0]), printable_source(sources[1]));
  if (!line.empty()) log_to_stderr(line);
  const auto matched = TRY(compare::match_tensors(*compared.a, *compared.b));
  const auto selected = TRY(select_tensors(compared.b, arguments.patterns));
  ProgressBar bar;
  UnreadTensors unread;
  stats::AgainstPrinter printer(
      {.json = arguments.json, .sort = arguments.sort, .top = arguments.top, .names = compared.names},
      model.model->budget);
  const stats::AgainstOptions options{
      .threads = processors(kMaxThreads),
      .report = [&bar](uint64_t done, uint64_t total, const std::string& name) { bar.show(done, total, name); }};
  const auto groups = TRY(compute_against(compared, matched, selected, options, [&](stats::AgainstFigures one) {
    unread.note(one);
    return printer.add(std::move(one));
  }));
  bar.clear();
  const std::string source = printable_source(arguments.input.source);
  const bool are_all = arguments.patterns.empty();
  printer.end(groups, are_all ? report_missing(*compared.a, matched.missing, arguments.json, source)
                              : std::vector<std::string>());
  Outcome outcome;
  if (are_all) outcome.check(*model.model, source);
  if (are_all) outcome.check(*reference.model, printable_source(arguments.against));
  if (const auto reason = reason_of_incomplete({{"", model.model}}, arguments.patterns)) outcome.fail(*reason);
  unread.report(outcome);
  if (const auto verified = opened.store->verify_complete(); !verified) outcome.fail_once(verified.error());
  return outcome.status();
}

Exit stats_of_source(StatsArguments& arguments) {
  auto opened = open_source(arguments.input);
  if (!opened) return report_error(opened.error());
  const EnteredModel entered = only_model(std::move(opened->forest), opened->source);
  const std::string source = join_path(printable_source(arguments.input.source), entered.path);
  Outcome outcome;
  const auto models = compare::models_in(*entered.forest, [&](const std::string& path, const Error& error) {
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
    return report_error(stats_usage("--svd needs --json, or one TENSOR"), Exit::usage);
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

Exit run_stats(StatsArguments& arguments) {
  if (const auto checked = check(arguments); !checked) return report_error(checked.error(), Exit::usage);
  if (arguments.against.empty()) return stats_of_source(arguments);
  const auto status = stats_against(arguments);
  return status ? *status : report_error(status.error());
}

std::optional<double> parse_threshold(const std::string& text) {
  const auto number = parse_number<double>(text);
  return number && *number >= 0 ? number : std::nullopt;
}

std::vector<Choice<std::string>> sort_choices() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all = stats::column_names();
    std::erase_if(all, [](const std::string& name) { return name == "histogram" || name == "flags"; });
    for (const std::string& name : stats::against_sort_names())
      if (std::ranges::find(all, name) == all.end()) all.push_back(name);
    return all;
  }();
  std::vector<Choice<std::string>> choices;
  for (const std::string& name : names) choices.push_back({name, name});
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
          {text("against", "MODEL",
                "print how far the tensors are from those of this model: SNR, relative error, cosine, maximum and mean "
                "absolute difference, count of differing elements (default: none)",
                given->against),
           names_option(given->names),
           choice("sort", "COLUMN",
                  "order of the tensors: numbers from the largest on, with --against from the worst on (default: as "
                  "stored)",
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
