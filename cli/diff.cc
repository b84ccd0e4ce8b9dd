// weightfs diff: compares two models.
#include <fmt/core.h>

#include <cstdio>
#include <exception>

#include "base/text.h"
#include "cli/console/outcome.h"
#include "cli/console/progress.h"
#include "cli/open_source.h"
#include "cli/options/names_option.h"
#include "cli/verbs.h"
#include "report/compare/models.h"
#include "report/diff/deviations.h"
#include "report/diff/report.h"
#include "report/inspect/single_model.h"
#include "report/text/words.h"

namespace weightfs {
namespace {

using compare::Contents;
using compare::ContentsComparison;
using compare::ModelComparison;

constexpr size_t kMaxDiffThreads = 16;

std::optional<double> parse_limit(const std::string& text) {
  const auto number = parse_number<double>(text);
  return number && *number >= 0 ? number : std::nullopt;
}

struct DiffArguments {
  SourceInput input;
  std::string a;
  std::string b;
  bool stat = false;
  compare::DeviationLimits limits;
  compare::NameMatching names = compare::NameMatching::mapped;
  bool metadata = false;
  bool json = false;
};

// A directory of models, or an archive of files.
bool is_directory(const Contents& contents) {
  return contents.model == nullptr || (contents.model->has_members && contents.model->tensors.empty());
}

// Whether one is a directory of models, and the other one model.
bool is_one_of_several(const Contents& directory, const Contents& other) {
  return directory.model == nullptr && !is_directory(other);
}

// A directory of models is compared only with another one, or with an archive of files.
Result<void> check_comparable(const Contents& a, const Contents& b, const DiffArguments& arguments) {
  if (!is_one_of_several(a, b) && !is_one_of_several(b, a)) return {};
  const Contents& several = a.model == nullptr ? a : b;
  std::vector<std::string> names;
  for (const compare::Item& item : several.items)
    if (item.model) names.push_back(item.path);
  return failure(several_models(a.model == nullptr ? arguments.a : arguments.b, names));
}

// Prints what the models lack. Returns whether all of them are complete.
bool are_complete(const ContentsComparison& found, const DiffArguments& arguments) {
  Outcome outcome;
  for (const ModelComparison& models : found.models) {
    outcome.check(*models.a, join_path(printable_source(arguments.a), models.path));
    outcome.check(*models.b, join_path(printable_source(arguments.b), models.path));
  }
  return outcome.status() == Exit::ok;
}

Result<Exit> compare_sources(const Contents& a, const Contents& b, const DiffArguments& arguments) {
  const bool has_deviation = arguments.stat || arguments.limits.is_set();
  ProgressBar bar;
  const auto report = [&](const char* what, uint64_t done, uint64_t total) { bar.show(done, total, what); };
  const compare::CompareOptions options{
      .deviation = has_deviation, .names = arguments.names, .threads = processors(kMaxDiffThreads), .report = report};
  const ContentsComparison found = TRY(compare::compare_contents(a, b, options));
  bar.clear();
  for (const ModelComparison& models : found.models) {
    const std::string line =
        compare::names_sentence(models.names, join_path(printable_source(arguments.a), models.path),
                                join_path(printable_source(arguments.b), models.path));
    if (!line.empty()) log_to_stderr(line);
  }
  if (arguments.json) {
    JsonPrinter printer(JsonPrinter::Form::indented,
                        [](std::string_view text) { std::fwrite(text.data(), 1, text.size(), stdout); });
    compare::write_differences(found, has_deviation, printer);
    printer.end();
  } else {
    compare::print_differences(found, has_deviation,
                               arguments.metadata ? compare::MetadataRows::all : compare::MetadataRows::few);
  }
  for (const std::string& line :
       compare::unreadable_lines(found, printable_source(arguments.a), printable_source(arguments.b)))
    log_to_stderr(line);
  if (!are_complete(found, arguments) || found.is_incomplete()) return kTrouble;
  if (arguments.limits.is_set()) return compare::are_within(found, arguments.limits) ? Exit::ok : kDifferent;
  return found.is_different() ? kDifferent : Exit::ok;
}

// Those of the only model of a directory, if it has one; the forest becomes that of the model.
Result<Contents> contents_of_only_model(std::unique_ptr<Forest>& forest, const std::string& source) {
  forest = only_model(std::move(forest), source).forest;
  return compare::contents_of(*forest);
}

Result<Exit> diff(DiffArguments& arguments) {
  arguments.input.open_options.all_files = true;  // those of a directory are compared, too
  auto opened = TRY(open_each_source({arguments.a, arguments.b}, arguments.input));
  std::unique_ptr<Forest>& forest_a = opened.forests[0];
  std::unique_ptr<Forest>& forest_b = opened.forests[1];
  Contents a = TRY(compare::contents_of(*forest_a));
  Contents b = TRY(compare::contents_of(*forest_b));
  if (is_one_of_several(a, b)) a = TRY(contents_of_only_model(forest_a, opened.sources[0]));
  if (is_one_of_several(b, a)) b = TRY(contents_of_only_model(forest_b, opened.sources[1]));
  TRY_VOID(check_comparable(a, b, arguments));
  const Exit compared = TRY(compare_sources(a, b, arguments));
  TRY_VOID(opened.store->verify_complete());
  return compared;
}

// Every error has the status of trouble: 1 means that the models differ.
Exit run_diff(DiffArguments& arguments) {
  try {
    const auto status = diff(arguments);
    if (status) return *status;
    report_error(status.error());
  } catch (const std::exception& error) {
    log_to_stderr(error.what());
  }
  return kTrouble;
}

}  // namespace

Command diff_command() {
  const auto given = std::make_shared<DiffArguments>();
  Command command = {
      "diff",
      "compare two models: metadata, tensors, and the models and files in them",
      {argument("A", "the first model: a SOURCE as of the other commands", given->a),
       argument("B", "the second model", given->b)},
      source_options(
          given->input,
          {flag("stat",
                "print how far the numbers of differing tensors are apart, the worst first: SNR, relative "
                "error, cosine, maximum and mean absolute difference, count of differing elements",
                given->stat),
           parsed("fail-above", "ERROR", "largest relative error of a tensor; implies --stat (default: no limit)",
                  "is not a number of at least 0", given->limits.max_relative_error, parse_limit),
           parsed("min-snr", "DB", "lowest SNR of a tensor; implies --stat (default: no limit)",
                  "is not a number of at least 0", given->limits.min_snr_db, parse_limit),
           names_option(given->names),
           flag("metadata",
                "list all metadata that differ, also on a terminal (default: there up to 3, else their number)",
                given->metadata),
           flag("json", "print a JSON object", given->json)}),
      {},
      [given] { return run_diff(*given); }};
  command.write_failed = kTrouble;
  command.statuses = "0 equal, 1 different, 2 not compared completely";
  return command;
}

}  // namespace weightfs
