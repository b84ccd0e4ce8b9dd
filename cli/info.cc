// weightfs info: the summary of a model as a screen, or of the models of a directory as a table.
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.h"
#include "cli/console/outcome.h"
#include "cli/console/report_error.h"
#include "cli/findings/duplicates.h"
#include "cli/findings/texts.h"
#include "cli/open_source.h"
#include "cli/options/memory_options.h"
#include "cli/verbs.h"
#include "formats/summary/summary.h"
#include "fs/tree/listing.h"
#include "report/info/listing.h"
#include "report/info/models.h"
#include "report/info/screen.h"
#include "report/inspect/locations.h"
#include "report/inspect/single_model.h"
#include "report/text/errors.h"
#include "report/text/words.h"

namespace weightfs {
namespace {

constexpr size_t kMaxBlocks = 1000;

struct InfoArguments {
  SourceInput input;
  std::vector<std::string> sources;
  std::optional<size_t> blocks;
  bool duplicates = false;
  bool json = false;
  bool metadata = false;
  bool tensors = false;
  std::optional<info::MemoryQuestion> memory;
  info::TextRequest texts;
};

// Prints what sources are, one after the other.
class Info {
 public:
  explicit Info(const InfoArguments& arguments) : arguments_(arguments), style_(info::style_of_stdout()) {}

  /// `opened`: what was opened for `source`.
  void print(std::unique_ptr<Forest> of_source, const std::string& source, const std::string& opened) {
    const EnteredModel entered = only_model(std::move(of_source), opened);
    Forest& forest = *entered.forest;
    const std::string name = join_path(printable_source(source), entered.path);
    const ModelPtr model = forest.model_of(Forest::kRoot);
    if (model == nullptr) return print_directory(forest, name);
    const auto known = with_lazy_parts(model);
    if (!known) return fail(name, known.error());
    if (arguments_.json && arguments_.tensors && arguments_.sources.size() == 1)
      print_with_locations(forest, **known, name);
    else if (arguments_.json)
      values_.emplace_back(described(**known, name));
    else
      print_model(*known, name);
    outcome_.check(**known, name);
  }

  void fail(const std::string& name, const Error& error) {
    if (arguments_.json) values_.emplace_back(failed_source(name, error));
    outcome_.fail(error);
  }

  Exit finish() {
    const bool is_array = arguments_.sources.size() > 1 || is_directory_;
    if (arguments_.json && is_array)
      std::fputs(to_json(std::move(values_)).c_str(), stdout);
    else if (arguments_.json && !values_.empty())
      std::fputs(to_json(values_.front()).c_str(), stdout);
    return outcome_.status();
  }

 private:
  // The object of metadata.json, with the memory if that is asked for.
  Map described(const Model& model, const std::string& name) const {
    Map out = metadata_of(model, name);
    if (!arguments_.memory) return out;
    const auto summarised = summary::summarise(model);
    out.append("memory", info::memory_map({model, summarised.summary, summarised.tensors, name}, *arguments_.memory));
    return out;
  }

  // The object of metadata.json with the members that say where the tensors are.
  void print_with_locations(Forest& forest, const Model& model, const std::string& name) {
    std::string text = to_json(described(model, name));  // printed when the first tensor is found
    text.replace(text.rfind('\n', text.rfind('}')), text.npos, ",\n  ");
    const auto print = [](std::string_view piece) { std::fwrite(piece.data(), 1, piece.size(), stdout); };
    const auto written = write_locations(forest, "", model, [&](std::string_view piece) {
      print(std::exchange(text, ""));
      print(piece);
    });
    if (!written) return fail(name, written.error());
    print("\n}\n");
  }

  void print_directory(Forest& forest, const std::string& name) {
    if (arguments_.memory)
      return fail(name, Error(Code::unsupported, name + ": a directory of models; the memory is that of one of them"));
    auto found = info::find_models(forest);
    if (!found) return fail(name, found.error());
    for (const info::DirectoryItem& item : *found)
      if (item.model) outcome_.check(*item.model, join_path(name, item.name));
    fail_for(*found, name);
    if (arguments_.json) {
      is_directory_ = true;
      for (Value& value : info::to_list(*found)) values_.push_back(std::move(value));
      return;
    }
    begin_screen(name);
    if (::isatty(STDOUT_FILENO) == 1)
      std::fputs(info::render_models(*found, name, style_).c_str(), stdout);
    else
      info::print_rows(*found);
  }

  // One line: each model that cannot be read has its row.
  void fail_for(const std::vector<info::DirectoryItem>& items, const std::string& source) {
    const auto failed = [](const info::DirectoryItem& item) { return item.error.has_value(); };
    const auto first = std::ranges::find_if(items, failed);
    if (first == items.end()) return;
    std::string message = error_at(join_path(source, first->name), *first->error).message;
    if (const auto count = std::ranges::count_if(items, failed); count > 1)
      message += fmt::format("; {} more cannot be read", count - 1);
    log_to_stderr(message);
    for (const info::DirectoryItem& item : items)
      if (failed(item)) outcome_.note(*item.error);
  }

  void print_model(const ModelPtr& model, const std::string& name) {
    const auto summarised = summary::summarise(*model);
    info::Subject subject{*model, summarised.summary, summarised.tensors, name};
    if (model->nested && model->chosen->alternatives.empty() && model->chosen->projector.empty()) {
      const auto nested = model->nested(model);
      if (!nested) outcome_.fail(nested.error());
      for (const Nested& one : nested ? *nested : std::vector<Nested>())
        subject.nested.push_back(model->parts[one.part].path);
    }
    begin_screen(name);
    std::fputs(info::render_screen(subject, style_, arguments_.blocks).c_str(), stdout);
    const auto write = [this](const std::string& line) { std::fputs(info::emit({line}, style_).c_str(), stdout); };
    if (arguments_.memory) {
      write("");
      for (const std::string& line : info::memory_lines(subject, *arguments_.memory, style_)) write(line);
    }
    if (arguments_.tensors) {
      const auto names = ::isatty(STDOUT_FILENO) == 1 ? info::Names::shortened : info::Names::complete;
      write("");
      info::list_tensors(subject, style_, names, write);
    }
    if (arguments_.metadata) {
      write("");
      info::list_metadata(*model, name, style_, write);
    }
  }

  // If there are several screens, each begins with its source, after an empty line.
  void begin_screen(const std::string& name) {
    if (arguments_.sources.size() < 2) return;
    const std::string line = info::shortened(info::clean(name, style_), style_.width, style_);
    std::fputs(info::emit({line}, style_).insert(0, is_first_ ? "" : "\n").c_str(), stdout);
    is_first_ = false;
  }

  const InfoArguments& arguments_;
  info::Style style_;
  Outcome outcome_;
  List values_;                // of JSON
  bool is_directory_ = false;  // a source has an array of models
  bool is_first_ = true;
};

Exit print_one_thing(InfoArguments& arguments) {
  if (arguments.sources.size() > 1)
    return report_error({Code::unsupported, "texts and tokens are printed of one SOURCE (see weightfs info --help)"},
                        Exit::usage);
  const auto opened = open_each_source(arguments.sources, arguments.input);
  if (!opened) return report_error(opened.error());
  return info::print_texts(arguments.sources.front(), *opened->forests.front(), arguments.texts,
                           arguments.json ? info::Output::json : info::Output::text);
}

Exit info_of(InfoArguments& arguments) {
  if (arguments.texts.is_any()) return print_one_thing(arguments);
  if (arguments.duplicates) {
    const auto opened = open_each_source(arguments.sources, arguments.input);
    if (!opened) return report_error(opened.error());
    return info::print_duplicates(arguments.sources, opened->forests,
                                  arguments.json ? info::Output::json : info::Output::text);
  }
  std::vector<std::optional<Error>> errors(arguments.sources.size());
  auto opened = open_each_source(arguments.sources, arguments.input,
                                 {.failed = [&](size_t source, const Error& error) { errors[source] = error; }});
  if (!opened) return report_error(opened.error());
  Info output(arguments);
  for (size_t i = 0; i < arguments.sources.size(); ++i) {
    if (errors[i])
      output.fail(printable_source(arguments.sources[i]), *errors[i]);
    else
      output.print(std::move(opened->forests[i]), arguments.sources[i], opened->sources[i]);
  }
  return output.finish();
}

Option blocks_option(std::optional<size_t>& blocks) {
  return {"blocks", "N", "rows of the table of blocks (default: up to 12, as the screen has 24 lines)",
          [&blocks](const std::string& text) -> Result<void> {
            const auto number = parse_number<size_t>(text);
            if (!number || *number < 2 || *number > kMaxBlocks)
              return failure(Code::unsupported, fmt::format("a number from 2 to {} expected", kMaxBlocks));
            blocks = *number;
            return {};
          }};
}

// The options that print one thing of a model.
Options text_options(info::TextRequest& request) {
  const auto of_kind = [&request](std::string name, std::string help, tokenizer::TextKind kind) {
    return Option{std::move(name), "", std::move(help), [&request, kind](const std::string& value) -> Result<void> {
                    request.kind = kind;
                    request.name = value;
                    return {};
                  }};
  };
  Option by_name = of_kind("template", "print only the chat template, as text; NAME is one of several",
                           tokenizer::TextKind::chat_template);
  by_name.value = "[=NAME]";
  Option tokens = {"tokens", "PATTERN",
                   "print only the tokens that have this text, or \"id N\", \"id N-M\"; \"\" is all (default: none)",
                   [&request](const std::string& value) -> Result<void> {
                     request.tokens = value;
                     return {};
                   }};
  return {std::move(by_name), of_kind("system", "print only the system prompt", tokenizer::TextKind::system),
          of_kind("parameters", "print only the parameters of generation", tokenizer::TextKind::parameters),
          of_kind("license", "print only the text of the licence", tokenizer::TextKind::licence), std::move(tokens)};
}

}  // namespace

Command info_command() {
  const auto given = std::make_shared<InfoArguments>();
  Argument sources = arguments("SOURCE", source_argument(given->input).help, given->sources, Argument::Count::some);
  Options own = {
      flag("tensors", "also list every tensor; with --json and one model, also where its bytes are", given->tensors),
      flag("metadata", "also list all metadata", given->metadata), blocks_option(given->blocks),
      flag("duplicates", "list duplicate tensors and the bytes they waste, also across several models",
           given->duplicates),
      flag("json", "print the content of metadata.json, or a JSON array of several models or of the duplicates",
           given->json)};
  for (Option& option : text_options(given->texts)) own.push_back(std::move(option));
  for (Option& option : memory_options(given->memory)) own.push_back(std::move(option));
  return {"info",
          "show what a model is: size, quantisation, memory, blocks",
          {std::move(sources)},
          source_options(given->input, std::move(own)),
          {},
          [given] { return info_of(*given); }};
}

}  // namespace weightfs
