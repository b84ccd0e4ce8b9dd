#include "report/info/listing.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/text.h"
#include "fs/tree/listing.h"
#include "report/compare/select_tensors.h"
#include "report/text/fitted_table.h"

namespace weightfs::info {
namespace {

constexpr size_t kMaxKey = 32;     // columns; a longer key has a line of its own
constexpr size_t kMaxItems = 8;    // of a list that is shown
constexpr size_t kMaxValue = 400;  // bytes of a value that is shown

const std::vector<FittedColumn>& tensor_columns() {
  static const std::vector<FittedColumn> columns = {{"tensor", 0, true},    {"dtype", 1, true}, {"shape", 2, true},
                                                    {"elements", 4, false}, {"size", 3, false}, {"", 1, true}};
  return columns;
}

FittedRow tensor_row(const Subject& subject, size_t i, const Style& style) {
  const TensorView tensor = subject.model.tensors[i];
  return {clean(full_name(tensor), style),
          clean(dtype_text(tensor), style),
          shape_text(tensor.shape),
          i < subject.counted.size() ? grouped(subject.counted[i].elements) : "",
          bytes_text(listed_bytes(subject.model.tensors, i)),
          tensor.source.refused() ? painted("refused", Paint::red) : ""};
}

// The option that prints a value; empty if none does.
std::string_view option_for(std::string_view key) {
  if (key == "tokenizer.ggml.tokens") return "--tokens";
  return key.find("chat_template") == key.npos || key.ends_with("chat_templates") ? "" : "--template";
}

// A value that is in a file of its own: {"count" or "nbytes", "path"}.
std::string note_text(std::string_view key, const Map& note) {
  const std::string_view option = option_for(key);
  const std::string_view path = option.empty() ? text_in(note, "path") : option;
  const auto* const count = note.find_as<uint64_t>("count");
  const auto* const bytes = note.find_as<uint64_t>("nbytes");
  if ((count == nullptr && bytes == nullptr) || path.empty()) return "";
  if (count == nullptr) return fmt::format("{} ({})", bytes_text(*bytes), path);
  const std::string_view last = key.substr(key.rfind('.') + 1);
  return fmt::format("{} {} ({})", grouped(*count), last == "tokens" || last == "merges" ? last : "values", path);
}

std::string value_text(std::string_view key, const Value& value) {
  const std::string_view option = option_for(key);
  const std::string_view where = option.empty() ? "metadata.json" : option;
  if (const auto* const map = std::get_if<Map>(&value))
    if (std::string note = note_text(key, *map); !note.empty()) return note;
  if (const auto* const text = std::get_if<std::string>(&value))
    return text->size() <= kMaxValue ? *text : fmt::format("text of {} ({})", bytes_text(text->size()), where);
  const auto* const list = std::get_if<List>(&value);
  if (list != nullptr && list->size() > kMaxItems) {
    const std::string_view last = key.substr(key.rfind('.') + 1);
    return fmt::format("{} {} ({})", grouped(list->size()), last == "tokens" || last == "merges" ? last : "values",
                       where);
  }
  std::string json = to_json_line(value);
  if (json.size() <= kMaxValue) return json;
  const auto* const map = std::get_if<Map>(&value);
  return fmt::format("{} values (metadata.json)", grouped(map != nullptr ? map->size() : list->size()));
}

void list_values(const Map& map, const Style& style, const WriteLine& write) {
  size_t column = 0;
  for (const auto& [key, value] : map)
    if (const size_t width = width_of(clean(key, style)); width <= kMaxKey) column = std::max(column, width);
  column = std::min(column + 2 * kGap, style.width / 2);
  for (const auto& [key, value] : map) {
    const std::string label = std::string(kGap, ' ') + clean(key, style);
    const auto lines = wrapped(clean(value_text(key, value), style), style.width - column, style);
    const bool is_beside = width_of(label) + kGap <= column;
    if (!is_beside) write(label);
    for (size_t i = 0; i < lines.size(); ++i) write(left(i == 0 && is_beside ? label : "", column) + lines[i]);
  }
}

// The fields that models have in common; those of an object are named after it.
Map flat(const Map& common) {
  Map out;
  for (const auto& [key, value] : common) {
    const auto* const fields = std::get_if<Map>(&value);
    if (fields == nullptr) out.append(key, value);
    for (const auto& [inner, field] : fields == nullptr ? Map() : *fields)
      out.append(fmt::format("{}.{}", key, inner), field);
  }
  return out;
}

}  // namespace

void list_tensors(const Subject& subject, const Style& style, Names names, const WriteLine& write) {
  const TensorList& tensors = subject.model.tensors;
  if (tensors.empty()) return;
  ShownNames shown(tensors.size(), [&](size_t i) { return clean(full_name(tensors[i]), style); });
  FittedTable table(tensor_columns(), std::move(shown), style, names == Names::complete ? 0 : style.width - kIndent);
  for (size_t i = 0; i < tensors.size(); ++i) table.measure(tensor_row(subject, i, style));
  table.fit();
  const auto write_all = [&](const std::vector<std::string>& lines) {
    for (const std::string& line : lines) write(std::string(kIndent, ' ') + line);
  };
  write_all(table.header_lines());
  for (size_t i = 0; i < tensors.size(); ++i) write_all(table.lines_of(tensor_row(subject, i, style)));
  if (table.is_complete()) return;
  for (const std::string& line : left_out_lines(style)) write(line);
}

void list_metadata(const Model& model, const std::string& source, const Style& style, const WriteLine& write) {
  bool names_file = false;
  const auto list = [&](const Map& map) {
    list_values(map, style, [&](const std::string& line) {
      names_file = names_file || line.ends_with(".json)");
      write(line);
    });
  };
  const Map common = flat(model.common);
  if (!common.empty()) list(common);
  const Map metadata = metadata_with_facts(model);
  if (metadata.empty()) return;
  if (!common.empty()) write("");
  write("metadata");
  list(metadata);
  if (!names_file) return;
  write("");
  // The command stays on one line, so that it can be copied.
  const std::string hint = "to print a file in brackets:";
  const std::string command = fmt::format("weightfs cat {} FILE", clean(shell_word(source), style));
  if (hint.size() + 1 + width_of(command) <= style.width) return write(hint + " " + command);
  write(hint);
  write(command);
}

}  // namespace weightfs::info
