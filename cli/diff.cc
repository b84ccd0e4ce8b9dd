// weightfs diff: compares two models.
#include <fmt/core.h>
#include <unistd.h>

#include <cstdio>
#include <exception>

#include "base/text.h"
#include "cli/compare/metadata.h"
#include "cli/compare/tensors.h"
#include "cli/console/progress.h"
#include "cli/console/table.h"
#include "cli/open_source.h"
#include "cli/select_tensors.h"
#include "cli/verbs.h"
#include "fs/listing.h"

namespace weightfs {
namespace {

using compare::ChangedTensor;
using compare::Deviation;
using compare::FieldChange;
using compare::MetadataComparison;
using compare::Side;
using compare::TensorComparison;
using compare::TensorPair;

constexpr size_t kMaxDiffThreads = 16;
constexpr size_t kMaxShown = 40;  // characters of a value on a terminal

struct DiffArguments {
  SourceInput input;
  std::string a;
  std::string b;
  bool stat = false;
  bool json = false;
};

struct Differences {
  const Model& a;
  const Model& b;
  MetadataComparison metadata;
  TensorComparison tensors;

  bool are_any() const {
    return !metadata.changes.empty() || !tensors.missing.empty() || !tensors.added.empty() ||
           !tensors.renamed.empty() || !tensors.changed.empty();
  }
  bool is_incomplete() const { return !metadata.unreadable.empty() || !tensors.unreadable.empty(); }
};

// Both orders of bytes have the same name.
std::string type_text(const TensorView& tensor) {
  return fmt::format("{}{} {}", dtype_text(tensor), tensor.dtype->npy_descr.starts_with('>') ? " big-endian" : "",
                     shape_text(tensor.shape));
}

Cell value_cell(const std::optional<Value>& value) {
  if (!value) return "";
  const auto* const text = std::get_if<std::string>(&*value);
  const std::string whole = text == nullptr ? to_json_line(*value) : *text;
  std::string shown;
  size_t characters = 0;
  for (std::string_view rest = whole; !rest.empty();) {
    if (++characters > kMaxShown) {
      shown += "…";
      break;
    }
    const size_t length = std::max<size_t>(utf8_sequence(rest), 1);
    shown += rest.substr(0, length);
    rest.remove_prefix(length);
  }
  return {shown, whole};
}

// The rows of the table: the columns of the deviation exist only if it was requested.
class DifferenceTable {
 public:
  explicit DifferenceTable(bool has_deviation) : has_deviation_(has_deviation), table_(columns(has_deviation)) {}

  void add(const char* change, CellColor color, std::string name, Cell a, Cell b,
           const ChangedTensor* changed = nullptr) {
    std::vector<Cell> row = {Cell(change, change, color), std::move(name), std::move(a), std::move(b)};
    if (has_deviation_) {
      if (changed != nullptr && changed->deviation)
        add_deviation(row, *changed->deviation);
      else
        row.insert(row.end(), {changed == nullptr ? "" : changed->no_deviation, "", "", ""});
    }
    table_.add(std::move(row));
  }

  void print() const {
    if (!table_.empty()) table_.print();
  }

 private:
  static std::vector<Table::Column> columns(bool has_deviation) {
    std::vector<Table::Column> all = {{"change"}, {"name"}, {"A"}, {"B"}};
    if (has_deviation)
      for (const char* name : {"max", "mean", "cosine", "differing"}) all.push_back({name, Align::right});
    return all;
  }

  static Cell figure(std::optional<double> value) {
    if (!value) return "";
    return {fmt::format("{:.5g}", *value), fmt::format("{}", *value)};
  }

  static void add_deviation(std::vector<Cell>& row, const Deviation& deviation) {
    const bool has_numbers = deviation.mean().has_value();
    row.push_back(figure(has_numbers ? std::optional(deviation.max()) : std::nullopt));
    row.push_back(figure(deviation.mean()));
    row.push_back(figure(deviation.cosine()));
    row.emplace_back(std::to_string(deviation.differing()));
  }

  bool has_deviation_;
  Table table_;
};

void print_differences(const Differences& found, bool has_deviation) {
  DifferenceTable table(has_deviation);
  for (const FieldChange& change : found.metadata.changes)
    table.add("metadata", CellColor::yellow, change.path, value_cell(change.a), value_cell(change.b));
  for (const size_t i : found.tensors.missing)
    table.add("missing", CellColor::red, full_name(found.a.tensors[i]), type_text(found.a.tensors[i]), "");
  for (const size_t i : found.tensors.added)
    table.add("added", CellColor::green, full_name(found.b.tensors[i]), "", type_text(found.b.tensors[i]));
  for (const TensorPair& pair : found.tensors.renamed)
    table.add("renamed", CellColor::yellow, full_name(found.a.tensors[pair.a]), type_text(found.a.tensors[pair.a]),
              full_name(found.b.tensors[pair.b]));
  for (const bool has_other_type : {true, false})
    for (const ChangedTensor& changed : found.tensors.changed)
      if (changed.has_other_type == has_other_type)
        table.add(has_other_type ? "type" : "bytes", CellColor::yellow, full_name(found.a.tensors[changed.pair.a]),
                  type_text(found.a.tensors[changed.pair.a]), type_text(found.b.tensors[changed.pair.b]), &changed);
  table.print();
  if (::isatty(STDOUT_FILENO) != 1) return;
  std::printf(
      "%s%zu and %zu tensors: %llu equal, %zu of another type, %zu with other bytes, %zu renamed, %zu missing, "
      "%zu added\n",
      found.are_any() ? "\n" : "", found.a.tensors.size(), found.b.tensors.size(),
      static_cast<unsigned long long>(found.tensors.equal),
      static_cast<size_t>(std::count_if(found.tensors.changed.begin(), found.tensors.changed.end(),
                                        [](const ChangedTensor& changed) { return changed.has_other_type; })),
      static_cast<size_t>(std::count_if(found.tensors.changed.begin(), found.tensors.changed.end(),
                                        [](const ChangedTensor& changed) { return !changed.has_other_type; })),
      found.tensors.renamed.size(), found.tensors.missing.size(), found.tensors.added.size());
}

Map type_value(const TensorView& tensor) {
  Map out;
  out.append("dtype", dtype_text(tensor));
  out.append("stored_dtype", tensor.stored_dtype);
  List shape;
  for (const uint64_t size : tensor.shape) shape.emplace_back(size);
  out.append("shape", std::move(shape));
  return out;
}

Map named_type_value(const TensorView& tensor) {
  Map out;
  out.append("name", full_name(tensor));
  for (const auto& [key, value] : type_value(tensor)) out.append(key, value);
  return out;
}

Value optional_value(std::optional<double> number) { return number ? Value(*number) : Value(nullptr); }

Map deviation_value(const Deviation& deviation) {
  Map out;
  out.append("count", deviation.count());
  out.append("differing", deviation.differing());
  out.append("nan", deviation.nan());
  out.append("max", deviation.mean() ? Value(deviation.max()) : Value(nullptr));
  out.append("mean", optional_value(deviation.mean()));
  out.append("cosine", optional_value(deviation.cosine()));
  return out;
}

Map changed_value(const Differences& found, const ChangedTensor& changed) {
  const TensorView a = found.a.tensors[changed.pair.a];
  Map out;
  out.append("name", full_name(a));
  out.append("change", changed.has_other_type ? "type" : "bytes");
  out.append("a", type_value(a));
  out.append("b", type_value(found.b.tensors[changed.pair.b]));
  if (changed.deviation) out.append("stat", deviation_value(*changed.deviation));
  if (!changed.no_deviation.empty()) out.append("no_stat", changed.no_deviation);
  return out;
}

// The text of a list of which each element is rendered by `render`.
template <class Elements, class Render>
List rendered_list(const Elements& elements, const Render& render) {
  List out;
  for (const auto& element : elements) out.emplace_back(render(element));
  return out;
}

Map differences_value(const Differences& found) {
  const TensorComparison& tensors = found.tensors;
  List errors = rendered_list(found.metadata.unreadable, [](const Error& error) {
    Map out;
    out.append("error", error.message);
    return out;
  });
  for (const auto& one : tensors.unreadable) {
    Map entry;
    entry.append("source", one.side == Side::a ? "a" : "b");
    entry.append("name", full_name((one.side == Side::a ? found.a : found.b).tensors[one.index]));
    entry.append("error", one.error.message);
    errors.emplace_back(std::move(entry));
  }
  Map out;
  out.append("equal", !found.are_any() && !found.is_incomplete());
  out.append("metadata", rendered_list(found.metadata.changes, [](const FieldChange& change) {
               Map entry;
               entry.append("field", change.path);
               if (change.a) entry.append("a", *change.a);
               if (change.b) entry.append("b", *change.b);
               return entry;
             }));
  out.append("missing", rendered_list(tensors.missing, [&](size_t i) { return named_type_value(found.a.tensors[i]); }));
  out.append("added", rendered_list(tensors.added, [&](size_t i) { return named_type_value(found.b.tensors[i]); }));
  out.append("renamed", rendered_list(tensors.renamed, [&](const TensorPair& pair) {
               Map entry = named_type_value(found.a.tensors[pair.a]);
               entry.append("new_name", full_name(found.b.tensors[pair.b]));
               return entry;
             }));
  out.append("changed", rendered_list(tensors.changed,
                                      [&](const ChangedTensor& changed) { return changed_value(found, changed); }));
  out.append("unreadable", std::move(errors));
  out.append("equal_tensors", tensors.equal);
  return out;
}

void report_unreadable(const Differences& found, const DiffArguments& arguments) {
  for (const Error& error : found.metadata.unreadable) report_error(error);
  for (const auto& one : found.tensors.unreadable) {
    const bool is_a = one.side == Side::a;
    log_to_stderr(fmt::format("{}: tensor {}: {}", printable_source(is_a ? arguments.a : arguments.b),
                              quoted(full_name((is_a ? found.a : found.b).tensors[one.index])), one.error.message));
  }
}

Result<Exit> compare_models(const Model& a, const Model& b, const DiffArguments& arguments) {
  SharedProgressBar bar;
  const auto report = [&](const char* what, uint64_t done, uint64_t total) { bar.show(done, total, what); };
  const compare::CompareOptions options{
      .deviation = arguments.stat, .threads = processors(kMaxDiffThreads), .report = report};
  MetadataComparison metadata = compare::compare_metadata(a, b);
  TensorComparison tensors = TRY(compare::compare_tensors(a, b, options));
  const Differences found{a, b, std::move(metadata), std::move(tensors)};
  bar.clear();
  if (arguments.json)
    std::fputs(to_json(differences_value(found)).c_str(), stdout);
  else
    print_differences(found, arguments.stat);
  report_unreadable(found, arguments);
  if (found.is_incomplete()) return kTrouble;
  return found.are_any() ? kDifferent : Exit::ok;
}

Result<Exit> diff(DiffArguments& arguments) {
  const auto opened = TRY(open_each_source({arguments.a, arguments.b}, arguments.input));
  const ModelPtr a = TRY(single_model(*opened.forests[0], arguments.a));
  const ModelPtr b = TRY(single_model(*opened.forests[1], arguments.b));
  return compare_models(*a, *b, arguments);
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
      "compare two models: metadata, then tensors",
      {argument("A", "the first model: a SOURCE as of the other commands", given->a),
       argument("B", "the second model", given->b)},
      source_options(given->input,
                     {flag("stat",
                           "also print how far the numbers of tensors that differ are apart: maximum and mean absolute "
                           "difference, cosine, count of differing elements",
                           given->stat),
                      flag("json", "print a JSON object", given->json)}),
      {},
      [given] { return run_diff(*given); }};
  command.write_failed = kTrouble;
  return command;
}

}  // namespace weightfs
