// weightfs info: a summary of a model.
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <map>
#include <optional>

#include "base/text.h"
#include "cli/compare/duplicates.h"
#include "cli/console/error_json.h"
#include "cli/console/outcome.h"
#include "cli/console/progress.h"
#include "cli/console/table.h"
#include "cli/open_source.h"
#include "cli/select_tensors.h"
#include "cli/verbs.h"
#include "fs/listing.h"

namespace weightfs {
namespace {

constexpr size_t kTensorsShown = 20;
constexpr size_t kMaxText = 60;
constexpr size_t kMaxSentence = 200;
constexpr size_t kMaxPath = 1000;
constexpr size_t kMaxHashers = 16;

struct InfoArguments {
  SourceInput input;
  std::vector<std::string> sources;
  bool duplicates = false;
  bool json = false;
  bool tensors = false;
};

// One line without control characters, cut after `max_characters`.
std::string cell(std::string_view text, size_t max_characters = kMaxText) {
  std::string out;
  size_t characters = 0;
  while (!text.empty()) {
    if (++characters > max_characters) return out + "…";
    const size_t length = std::max<size_t>(utf8_sequence(text), 1);
    out += is_control(text) || utf8_sequence(text) == 0 ? "?" : text.substr(0, length);
    text.remove_prefix(length);
  }
  return out;
}

std::string one_line(const Value& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return cell(*text);
  return cell(to_json_line(value));
}

// The worst of the tensors' files.
VerifiedBy verification_of(const Model& model) {
  auto worst = VerifiedBy::unknown;
  const Source* last = nullptr;
  for (const TensorView& tensor : model.tensors) {
    const Source* const file = tensor.source.whole().get();
    if (file != nullptr && file != last) worst = worse(worst, file->verification());
    last = file;
  }
  return worst;
}

// The size of a tensor by its shape and dtype if it is refused.
uint64_t listed_bytes(const TensorView& tensor) {
  return tensor.source.refused() ? size_in_bytes(*tensor.dtype, tensor.shape).value_or(0) : tensor.nbytes();
}

void print_facts(const Model& model, const std::string& source) {
  Table facts({{""}, {""}});
  facts.add({"format", model.version.empty() ? model.format : fmt::format("{} {}", model.format, model.version)});
  for (const auto& [key, value] : model.common) {
    const auto* const fields = std::get_if<Map>(&value);
    if (fields == nullptr) facts.add({cell(key), one_line(value)});
    for (const auto& [inner, field] : fields == nullptr ? Map() : *fields)
      facts.add({cell(key + " " + inner), one_line(field)});
  }
  uint64_t bytes = 0;
  for (const TensorView& tensor : model.tensors) bytes += listed_bytes(tensor);
  facts.add({"files", fmt::format("{}, {}", model.parts.size(), human_size(file_bytes(model)))});
  facts.add({"tensors", fmt::format("{}, {}", model.tensors.size(), human_size(bytes))});
  const std::string_view verified = to_text(verification_of(model));
  if (!verified.empty()) facts.add({"verified", std::string(verified)});
  if (const auto completeness = completeness_of(model); !completeness.is_complete())
    facts.add({"incomplete", cell(to_sentence(completeness), kMaxSentence)});
  if (!model.warnings.empty()) facts.add({"warnings", fmt::format("{}, see warnings.txt", model.warnings.size())});
  std::printf("%s\n\n", cell(source, kMaxPath).c_str());
  facts.print(TableStyle::embedded());
}

void print_metadata(const Model& model) {
  const Map metadata = metadata_with_facts(model);
  if (metadata.empty()) return;
  Table table({{""}, {""}});
  for (const auto& [key, value] : metadata) table.add({cell(key), one_line(value)});
  std::printf("\nmetadata\n");
  table.print(TableStyle::embedded());
}

void print_dtypes(const Model& model) {
  struct Sum {
    uint64_t tensors = 0;
    uint64_t refused = 0;
    uint64_t bytes = 0;
  };
  std::map<std::string_view, Sum> sums;
  for (const TensorView& tensor : model.tensors) {
    Sum& sum = sums[dtype_text(tensor)];
    ++sum.tensors;
    sum.refused += tensor.source.refused() ? uint64_t{1} : 0;
    sum.bytes += listed_bytes(tensor);
  }
  if (sums.empty()) return;
  const bool is_any_refused = std::ranges::any_of(sums, [](const auto& row) { return row.second.refused > 0; });
  std::vector<Table::Column> columns{{"dtype"}, {"tensors", Align::right}, {"size", Align::right}};
  if (is_any_refused) columns.push_back({"refused", Align::right});
  Table table(std::move(columns));
  for (const auto& [dtype, sum] : sums) {
    std::vector<Cell> row{cell(dtype), std::to_string(sum.tensors), human_size(sum.bytes)};
    if (is_any_refused) row.emplace_back(sum.refused > 0 ? std::to_string(sum.refused) : "");
    table.add(std::move(row));
  }
  std::printf("\n");
  table.print(TableStyle::embedded());
}

void print_tensors(const Model& model, size_t most) {
  if (model.tensors.empty()) return;
  const bool is_any_refused = completeness_of(model).unreadable > 0;
  std::vector<Table::Column> columns{{"tensor"}, {"dtype"}, {"shape"}, {"size", Align::right}};
  if (is_any_refused) columns.push_back({""});
  Table table(std::move(columns));
  const size_t shown = std::min(most, model.tensors.size());
  for (size_t i = 0; i < shown; ++i) {
    const TensorView& t = model.tensors[i];
    const std::string name = t.scope.empty() ? std::string(t.name) : fmt::format("{}/{}", t.scope, t.name);
    std::vector<Cell> row{cell(name), std::string(dtype_text(t)), shape_text(t.shape), human_size(listed_bytes(t))};
    if (is_any_refused) row.emplace_back(t.source.refused() ? "refused" : "");
    table.add(std::move(row));
  }
  std::printf("\n");
  table.print(TableStyle::embedded());
  if (shown < model.tensors.size())
    std::printf("  … and %zu more (--tensors shows all)\n", model.tensors.size() - shown);
}

// The names of nested containers, which are not opened.
void print_nested(const ModelPtr& model) {
  if (!model->nested) return;
  const auto nested = model->nested(model);
  if (!nested) {
    report_error(nested.error());
    return;
  }
  if (nested->empty()) return;
  std::printf("\nnested\n");
  for (size_t i = 0; i < std::min(nested->size(), kTensorsShown); ++i)
    std::printf("  %s\n", cell(model->parts[(*nested)[i].part].path, kMaxPath).c_str());
  if (nested->size() > kTensorsShown) std::printf("  … and %zu more\n", nested->size() - kTensorsShown);
}

void print_model(const ModelPtr& shared, const InfoArguments& arguments) {
  const Model& model = *shared;
  print_facts(model, printable_source(arguments.input.source));
  print_metadata(model);
  print_dtypes(model);
  print_tensors(model, arguments.tensors ? model.tensors.size() : kTensorsShown);
  print_nested(shared);
}

// An entry of a directory: a model, a file, a directory, or an error.
struct DirectoryItem {
  std::string name;
  ModelPtr model;  // null unless it is a model
  std::string type;
  std::optional<Error> error;
};

DirectoryItem inspect_entry(Forest& forest, Ino ino, const Node& node, const std::string& name) {
  DirectoryItem found{name, nullptr, node.kind == NodeKind::file ? "file" : "directory", {}};
  if (node.kind == NodeKind::file) return found;
  const auto inside = forest.list(ino);
  if (!inside) found.error = inside.error();
  if (!inside || inside->count == 0) return found;
  const ModelPtr model = inside->tree->model();
  if (model == nullptr) return found;
  auto known = with_lazy_parts(model);
  if (known)
    found.model = std::move(*known);
  else
    found.error = known.error();
  return found;
}

Value as_value(const DirectoryItem& found) {
  if (found.model) return metadata_of(*found.model, found.name);
  if (found.error) return failed_source(found.name, *found.error);
  Map out;
  out.append("source", found.name);
  out.append("type", found.type);
  return out;
}

// The functions that another program would run when it loads the model; nothing if there are none (semantics 2.7).
const std::string* dangerous_globals(const DirectoryItem& found) {
  const Value* const names = found.model ? found.model->common.find("dangerous_globals") : nullptr;
  return names == nullptr ? nullptr : std::get_if<std::string>(names);
}

std::vector<Cell> as_row(const DirectoryItem& found) {
  const Cell name(cell(found.name), found.name);
  if (!found.model)
    return {name, found.error ? Cell(cell(found.error->message), found.error->message) : Cell(found.type), "", ""};
  uint64_t bytes = 0;
  for (const TensorView& tensor : found.model->tensors) bytes += listed_bytes(tensor);
  return {name, found.model->format, std::to_string(found.model->tensors.size()), bytes_cell(bytes)};
}

// A line for each entry; a column for dangerous functions only if there are some.
void print_table(const std::vector<DirectoryItem>& all) {
  const bool is_any_dangerous = std::ranges::any_of(all, dangerous_globals);
  std::vector<Table::Column> columns{{"model"}, {"format"}, {"tensors", Align::right}, {"size", Align::right}};
  if (is_any_dangerous) columns.push_back({"dangerous_globals"});
  Table table(std::move(columns));
  for (const DirectoryItem& found : all) {
    std::vector<Cell> row = as_row(found);
    const std::string* const names = dangerous_globals(found);
    if (names != nullptr)
      row.emplace_back(cell(*names), *names, CellColor::red);
    else if (is_any_dangerous)
      row.emplace_back("");
    table.add(std::move(row));
  }
  table.print();
}

// Lists a directory recursively down to its models.
Result<std::vector<DirectoryItem>> find_all(Forest& forest, Ino directory, const std::string& path) {
  const auto all = TRY(forest.list(directory));
  std::vector<DirectoryItem> out;
  for (uint32_t i = 0; i < all.count; ++i) {
    const Node node = all.tree->node(all.first + i);
    const std::string name = fmt::format("{}{}{}", path, path.empty() ? "" : "/", node.name());
    if (node.kind == NodeKind::directory) {
      auto below = TRY(find_all(forest, all.ino + i, name));
      std::move(below.begin(), below.end(), std::back_inserter(out));
    } else {
      out.push_back(inspect_entry(forest, all.ino + i, node, name));
    }
  }
  return out;
}

// Prints one line per model.
Exit print_models(Forest& forest, const InfoArguments& arguments) {
  const auto all = find_all(forest, Forest::kRoot, "");
  if (!all) return report_error(all.error());
  Outcome outcome;
  for (const DirectoryItem& found : *all) {
    if (found.error) outcome.fail({found.error->code, fmt::format("{}: {}", found.name, found.error->message)});
    if (found.model) outcome.check(*found.model, found.name);
  }
  if (arguments.json) {
    List list;
    for (const DirectoryItem& found : *all) list.push_back(as_value(found));
    std::fputs(to_json(std::move(list)).c_str(), stdout);
  } else {
    print_table(*all);
  }
  return outcome.status();
}

// The models of sources, each with the name that the user knows it by.
struct NamedModels {
  std::vector<std::string> names;
  std::vector<ModelPtr> models;
};

// Adds all models of a source. A model that cannot be read, or is incomplete, is a failure.
void add_models(NamedModels& out, Forest& forest, const std::string& source, Outcome& outcome) {
  const auto name_of = [&](const std::string& path) { return compare::join_path(printable_source(source), path); };
  const auto found = compare::models_in(forest, [&](const std::string& path, const Error& error) {
    outcome.fail({error.code, fmt::format("{}: {}", name_of(path), error.message)});
  });
  if (!found) return outcome.fail(found.error());
  for (const compare::FoundModel& one : *found) {
    outcome.check(*one.model, name_of(one.path));
    out.names.push_back(name_of(one.path));
    out.models.push_back(one.model);
  }
}

std::string digest_text(const Digest& digest) { return fmt::format("sha256:{}", digest.hex()); }

// Terminals show what a group has in common once.
void print_duplicates(const NamedModels& named, const compare::Duplicates& found) {
  if (found.groups.empty()) return;
  Table table(
      {{"digest"}, {"size", Align::right}, {"cost", Align::right}, {"model"}, {"tensor"}, {"dtype"}, {"shape"}});
  uint64_t cost = 0;
  for (const compare::EqualTensors& group : found.groups) {
    cost += group.cost();
    bool is_first = true;
    for (const compare::TensorPlace& place : group.tensors) {
      const TensorView tensor = named.models[place.model]->tensors[place.index];
      const auto once = [&](const std::string& shown, const std::string& raw) {
        return Cell(is_first ? shown : "", raw);
      };
      table.add({once(group.digest.hex().substr(0, 12), digest_text(group.digest)),
                 once(human_size(group.nbytes), std::to_string(group.nbytes)),
                 once(human_size(group.cost()), std::to_string(group.cost())), named.names[place.model],
                 full_name(tensor), std::string(dtype_text(tensor)), shape_text(tensor.shape)});
      is_first = false;
    }
  }
  table.print();
  if (::isatty(STDOUT_FILENO) == 1)
    std::printf("\n%zu groups of equal tensors cost %s\n", found.groups.size(), human_size(cost).c_str());
}

Value duplicates_value(const NamedModels& named, const compare::Duplicates& found) {
  List list;
  for (const compare::EqualTensors& group : found.groups) {
    List tensors;
    for (const compare::TensorPlace& place : group.tensors) {
      const TensorView tensor = named.models[place.model]->tensors[place.index];
      Map entry;
      entry.append("source", named.names[place.model]);
      entry.append("name", full_name(tensor));
      entry.append("dtype", dtype_text(tensor));
      List shape;
      for (const uint64_t size : tensor.shape) shape.emplace_back(size);
      entry.append("shape", std::move(shape));
      tensors.emplace_back(std::move(entry));
    }
    Map out;
    out.append("digest", digest_text(group.digest));
    out.append("nbytes", group.nbytes);
    out.append("cost", group.cost());
    out.append("tensors", std::move(tensors));
    list.emplace_back(std::move(out));
  }
  return list;
}

Exit print_duplicates_of_sources(InfoArguments& arguments) {
  const auto opened = open_each_source(arguments.sources, arguments.input);
  if (!opened) return report_error(opened.error());
  NamedModels named;
  Outcome outcome;
  for (size_t i = 0; i < arguments.sources.size(); ++i)
    add_models(named, *opened->forests[i], arguments.sources[i], outcome);
  SharedProgressBar bar;
  const auto found =
      compare::find_duplicates(named.models, processors(kMaxHashers),
                               [&](const char* what, uint64_t done, uint64_t total) { bar.show(done, total, what); });
  bar.clear();
  if (!found) return report_error(found.error());
  if (arguments.json)
    std::fputs(to_json(duplicates_value(named, *found)).c_str(), stdout);
  else
    print_duplicates(named, *found);
  for (const compare::Duplicates::Unreadable& one : found->unreadable) {
    const TensorView tensor = named.models[one.place.model]->tensors[one.place.index];
    outcome.fail({one.error.code, fmt::format("{}: tensor {}: {}", named.names[one.place.model],
                                              quoted(full_name(tensor)), one.error.message)});
  }
  return outcome.status();
}

Exit report_failed_source(const Error& error, const InfoArguments& arguments) {
  if (arguments.json)
    std::fputs(to_json(failed_source(printable_source(arguments.input.source), error)).c_str(), stdout);
  return report_error(error);
}

Exit info(InfoArguments& arguments) {
  if (arguments.duplicates) return print_duplicates_of_sources(arguments);
  if (arguments.sources.size() > 1) {
    log_to_stderr("several SOURCEs need --duplicates (see weightfs info --help)");
    return Exit::usage;
  }
  arguments.input.source = arguments.sources.front();
  const auto opened = open_source(arguments.input);
  if (!opened) return report_failed_source(opened.error(), arguments);
  Forest& forest = *opened->forest;
  const ModelPtr model = forest.model_of(Forest::kRoot);
  if (model == nullptr) return print_models(forest, arguments);
  const auto known = with_lazy_parts(model);
  if (!known) return report_failed_source(known.error(), arguments);
  if (arguments.json) {
    std::fputs(to_json(metadata_of(**known, printable_source(arguments.input.source))).c_str(), stdout);
  } else {
    print_model(*known, arguments);
  }
  Outcome outcome;
  outcome.check(**known, printable_source(arguments.input.source));
  return outcome.status();
}

}  // namespace

Command info_command() {
  const auto given = std::make_shared<InfoArguments>();
  Argument sources = arguments("SOURCE", source_argument(given->input).help + "; with --duplicates also several",
                               given->sources, Argument::Count::some);
  return {"info",
          "summarize a model: format, metadata, types, tensors",
          {std::move(sources)},
          source_options(
              given->input,
              {flag("tensors", "list every tensor (default: the first 20)", given->tensors),
               flag("duplicates", "list equal tensors, also of several models, and the bytes that they cost",
                    given->duplicates),
               flag("json", "print the content of metadata.json, or a JSON array of the duplicates", given->json)}),
          {},
          [given] { return info(*given); }};
}

}  // namespace weightfs
