#include "report/diff/report.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <span>

#include "base/cancel.h"
#include "base/text.h"
#include "fs/tree/listing.h"
#include "report/compare/select_tensors.h"
#include "report/diff/deviations.h"
#include "report/text/map_of.h"
#include "report/text/table.h"
#include "report/text/words.h"

namespace weightfs::compare {
namespace {

constexpr size_t kMaxShown = 40;    // characters of a value on a terminal
constexpr size_t kFewMetadata = 3;  // that a terminal gets without a request

std::string name_in(const ModelComparison& models, const TensorView& tensor) {
  return join_path(models.path, full_name(tensor));
}

// Both orders of bytes have the same name.
std::string type_text(const TensorView& tensor) {
  return fmt::format("{}{} {}", dtype_text(tensor), tensor.dtype->order == ByteOrder::big ? " big-endian" : "",
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

  void add(const char* change, CellColor color, std::string name, Cell a, Cell b) {
    add_row({Cell(change, change, color), std::move(name), std::move(a), std::move(b)}, {});
  }

  void add(const ModelComparison& models, const ChangedTensor& changed) {
    const TensorView a = models.a->tensors[changed.pair.a], b = models.b->tensors[changed.pair.b];
    const char* const change = changed.has_other_type ? "type" : "bytes";
    std::vector<Cell> cells = {changed.no_deviation};
    if (changed.deviation) cells = deviation_cells(*changed.deviation, a.shape);
    add_row({Cell(change, change, CellColor::yellow), name_in(models, a), type_text(a), type_text(b)}, cells);
  }

  bool empty() const { return table_.empty(); }
  bool has_deviation() const { return has_deviation_; }

  void print() const {
    if (table_.empty()) return;
    table_.print();
  }

 private:
  static std::vector<Table::Column> columns(bool has_deviation) {
    std::vector<Table::Column> all = {{"change"}, {"name"}, {"A"}, {"B"}};
    if (has_deviation)
      for (const Table::Column& column : deviation_columns()) all.push_back(column);
    return all;
  }

  void add_row(std::vector<Cell> row, const std::vector<Cell>& deviation) {
    if (has_deviation_) {
      row.insert(row.end(), deviation.begin(), deviation.end());
      row.resize(columns(true).size(), "");
    }
    table_.add(std::move(row));
  }

  bool has_deviation_;
  Table table_;
};

std::string state_text(const FileState& state) {
  std::string out = state.is_model ? "model" : "file";
  if (!state.link_target.empty()) return fmt::format("link to {}", state.link_target);
  if (state.size) out += fmt::format(", {} bytes", *state.size);
  if (state.digest) out += fmt::format(", sha256:{}", state.digest->hex());
  return out;
}

void add_models(DifferenceTable& table, const ModelComparison& models, bool has_changed) {
  const TensorComparison& tensors = models.tensors;
  for (const size_t i : tensors.missing)
    table.add("missing", CellColor::red, name_in(models, models.a->tensors[i]), type_text(models.a->tensors[i]), "");
  for (const size_t i : tensors.added)
    table.add("added", CellColor::green, name_in(models, models.b->tensors[i]), "", type_text(models.b->tensors[i]));
  for (const TensorPair& pair : tensors.renamed)
    table.add("renamed", CellColor::yellow, name_in(models, models.a->tensors[pair.a]),
              type_text(models.a->tensors[pair.a]), name_in(models, models.b->tensors[pair.b]));
  if (!has_changed) return;
  if (table.has_deviation()) {
    for (const ChangedTensor* const changed : worst_first(tensors.changed)) table.add(models, *changed);
    return;
  }
  for (const bool has_other_type : {true, false})
    for (const ChangedTensor& changed : tensors.changed)
      if (changed.has_other_type == has_other_type) table.add(models, changed);
}

void add_metadata(DifferenceTable& table, const ModelComparison& models) {
  for (const FieldChange& change : models.metadata.changes)
    table.add("metadata", CellColor::yellow, join_path(models.path, change.path), value_cell(change.a),
              value_cell(change.b));
}

void add_file(DifferenceTable& table, const FileChange& file) {
  if (!file.b)
    table.add("missing", CellColor::red, file.path, state_text(*file.a), "");
  else if (!file.a)
    table.add("added", CellColor::green, file.path, "", state_text(*file.b));
  else
    table.add("file", CellColor::yellow, file.path, state_text(*file.a), state_text(*file.b));
}

size_t count_metadata(const ContentsComparison& found) {
  size_t count = 0;
  for (const ModelComparison& models : found.models) count += models.metadata.changes.size();
  return count;
}

void print_summary(const ContentsComparison& found, const info::Style& style, bool is_after_table, bool has_metadata) {
  size_t of_a = 0, of_b = 0, other_type = 0, other_bytes = 0, renamed = 0, missing = 0, added = 0;
  for (const ModelComparison& models : found.models) {
    of_a += models.a->tensors.size();
    of_b += models.b->tensors.size();
    for (const ChangedTensor& changed : models.tensors.changed) ++(changed.has_other_type ? other_type : other_bytes);
    renamed += models.tensors.renamed.size();
    missing += models.tensors.missing.size();
    added += models.tensors.added.size();
  }
  std::vector<std::string> lines;
  if (is_after_table) lines.emplace_back();
  lines.push_back(fmt::format("{} and {} tensors:", of_a, of_b));
  for (const std::string& part :
       {fmt::format(" {} equal,", found.equal_tensors), fmt::format(" {} of another type,", other_type),
        fmt::format(" {} with other bytes,", other_bytes), fmt::format(" {} renamed,", renamed),
        fmt::format(" {} missing,", missing), fmt::format(" {} added", added)}) {
    if (lines.back().size() + part.size() > style.width)
      lines.push_back(part.substr(1));
    else
      lines.back() += part;
  }
  if (found.equal_files + found.files.size() > 0)
    lines.push_back(fmt::format("files: {} equal, {} different", found.equal_files, found.files.size()));
  const std::string metadata =
      fmt::format("metadata: {}; --metadata lists them", counted(count_metadata(found), "differs", "differ"));
  if (!has_metadata)
    for (std::string& line : info::wrapped(metadata, style.width, style)) lines.push_back(std::move(line));
  std::fputs(info::emit(lines, style).c_str(), stdout);
}

Map type_value(const TensorView& tensor) {
  Map out = map_of({{"dtype", dtype_text(tensor)}, {"stored_dtype", tensor.stored_dtype}});
  List shape;
  for (const uint64_t size : tensor.shape) shape.emplace_back(size);
  out.append("shape", std::move(shape));
  return out;
}

Map named_type_value(const ModelComparison& models, const TensorView& tensor) {
  Map out;
  out.append("name", name_in(models, tensor));
  for (const auto& [key, value] : type_value(tensor)) out.append(key, value);
  return out;
}

Map changed_value(const ModelComparison& models, const ChangedTensor& changed) {
  const TensorView a = models.a->tensors[changed.pair.a];
  Map out = map_of({{"name", name_in(models, a)},
                    {"change", changed.has_other_type ? "type" : "bytes"},
                    {"a", type_value(a)},
                    {"b", type_value(models.b->tensors[changed.pair.b])}});
  if (changed.deviation) {
    Map stat = deviation_value(*changed.deviation, a.shape);
    stat.append("differences", differences_by_exponent(changed.differences));
    out.append("stat", std::move(stat));
  }
  if (!changed.no_deviation.empty()) out.append("no_stat", changed.no_deviation);
  return out;
}

Map file_value(const FileState& state) {
  Map out;
  out.append("type", state.is_model ? "model" : state.link_target.empty() ? "file" : "link");
  if (state.size) out.append("size", *state.size);
  if (state.digest) out.append("digest", fmt::format("sha256:{}", state.digest->hex()));
  if (!state.link_target.empty()) out.append("target", state.link_target);
  return out;
}

Map change_value(const FileChange& file) {
  Map entry;
  entry.append("name", file.path);
  if (file.a) entry.append("a", file_value(*file.a));
  if (file.b) entry.append("b", file_value(*file.b));
  return entry;
}

const char* side_text(Side side) { return side == Side::a ? "a" : "b"; }

const Model& model_of(const ModelComparison& models, Side side) { return side == Side::a ? *models.a : *models.b; }

Map field_value(const ModelComparison& models, const FieldChange& change) {
  Map entry;
  entry.append("field", join_path(models.path, change.path));
  if (change.a) entry.append("a", *change.a);
  if (change.b) entry.append("b", *change.b);
  return entry;
}

Map renamed_value(const ModelComparison& models, const TensorPair& pair) {
  Map entry = named_type_value(models, models.a->tensors[pair.a]);
  entry.append("new_name", name_in(models, models.b->tensors[pair.b]));
  return entry;
}

Map unreadable_value(std::optional<Side> side, const std::string& name, const Error& error) {
  Map entry;
  if (side) entry.append("source", side_text(*side));
  if (!name.empty()) entry.append("name", name);
  entry.append("error", error.message);
  return entry;
}

// Writes a list that has the elements of all models, or a part of it when it is cancelled.
template <class ItemsOf, class ValueOf>
void write_list(const ContentsComparison& found, const char* name, JsonPrinter& out, const ItemsOf& items_of,
                const ValueOf& value_of) {
  out.begin_list(name);
  for (const ModelComparison& models : found.models) {
    for (const auto& item : items_of(models)) {
      if (is_cancelled()) break;
      out.item(value_of(models, item));
    }
  }
  out.end_list();
}

void write_tensors(const ContentsComparison& found, JsonPrinter& out) {
  using Models = const ModelComparison&;
  write_list(
      found, "missing", out, [](Models of) { return std::span(of.tensors.missing); },
      [](Models of, size_t i) { return named_type_value(of, of.a->tensors[i]); });
  write_list(
      found, "added", out, [](Models of) { return std::span(of.tensors.added); },
      [](Models of, size_t i) { return named_type_value(of, of.b->tensors[i]); });
  write_list(
      found, "renamed", out, [](Models of) { return std::span(of.tensors.renamed); }, renamed_value);
  write_list(
      found, "changed", out, [](Models of) { return std::span(of.tensors.changed); }, changed_value);
}

void write_deviations(const ContentsComparison& found, JsonPrinter& out) {
  out.begin_list("layers");
  for (const LayerDeviation& layer : layer_deviations(found))
    out.item(map_of(
        {{"name", layer.name}, {"tensors", layer.tensors}, {"stat", deviation_value(layer.deviation, std::nullopt)}}));
  out.end_list();
  out.member("stat", deviation_value(total_deviation(found), std::nullopt));
}

void write_unreadable(const ContentsComparison& found, JsonPrinter& out) {
  out.begin_list("unreadable");
  for (const ModelComparison& models : found.models) {
    for (const Error& error : models.metadata.unreadable) out.item(unreadable_value({}, models.path, error));
    for (const UnreadableTensor& one : models.tensors.unreadable)
      out.item(unreadable_value(one.side, name_in(models, model_of(models, one.side).tensors[one.index]), one.error));
  }
  for (const UnreadableFile& one : found.unreadable) out.item(unreadable_value(one.side, one.path, one.error));
  out.end_list();
}

}  // namespace

void print_differences(const ContentsComparison& found, bool has_deviation, MetadataRows metadata) {
  const bool is_terminal = ::isatty(STDOUT_FILENO) == 1;
  // A terminal has a table of its own for what was measured.
  DifferenceTable table(has_deviation && !is_terminal);
  for (const ModelComparison& models : found.models) add_models(table, models, !has_deviation || !is_terminal);
  for (const FileChange& file : found.files) add_file(table, file);
  const bool has_metadata = !is_terminal || metadata == MetadataRows::all || count_metadata(found) <= kFewMetadata;
  if (has_metadata)
    for (const ModelComparison& models : found.models) add_metadata(table, models);
  table.print();
  if (!is_terminal) return;
  const info::Style style = info::style_of_stdout();
  const std::vector<std::string> lines = has_deviation ? deviation_lines(found, style) : std::vector<std::string>();
  std::printf("%s%s", table.empty() || lines.empty() ? "" : "\n", info::emit(lines, style).c_str());
  print_summary(found, style, !table.empty() || !lines.empty(), has_metadata);
}

void write_differences(const ContentsComparison& found, bool has_deviation, JsonPrinter& out) {
  out.member("equal", !found.is_different() && !found.is_incomplete());
  for (const ModelComparison& models : found.models) {
    if (!models.path.empty()) continue;
    if (const auto& mapped = models.names.mapped)
      out.member("mapped_names", map_of({{"source", side_text(mapped->side)}, {"unmapped", mapped->unmapped}}));
    if (!models.names.why_not.empty()) out.member("names_not_mapped", models.names.why_not);
  }
  write_list(
      found, "metadata", out, [](const ModelComparison& of) { return std::span(of.metadata.changes); }, field_value);
  write_tensors(found, out);
  if (has_deviation) write_deviations(found, out);
  out.begin_list("files");
  for (const FileChange& file : found.files) out.item(change_value(file));
  out.end_list();
  write_unreadable(found, out);
  out.member("equal_tensors", found.equal_tensors);
  out.member("equal_files", found.equal_files);
}

std::vector<std::string> unreadable_lines(const ContentsComparison& found, const std::string& a, const std::string& b) {
  std::vector<std::string> out;
  for (const ModelComparison& models : found.models) {
    for (const Error& error : models.metadata.unreadable)
      out.push_back(models.path.empty() ? error.message : fmt::format("{}: {}", quoted(models.path), error.message));
    for (const UnreadableTensor& one : models.tensors.unreadable) {
      const TensorView tensor = model_of(models, one.side).tensors[one.index];
      // The completeness of the model has the others.
      if (tensor.source.refused() && one.error.code != Code::unsupported) continue;
      out.push_back(fmt::format("{}: tensor {}: {}", one.side == Side::a ? a : b, quoted(name_in(models, tensor)),
                                one.error.message));
    }
  }
  for (const UnreadableFile& one : found.unreadable)
    out.push_back(fmt::format("{}: {}: {}", one.side == Side::a ? a : b, quoted(one.path), one.error.message));
  return out;
}

}  // namespace weightfs::compare
