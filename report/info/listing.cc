#include "report/info/listing.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "fs/tree/listing.h"
#include "report/compare/select_tensors.h"
#include "report/text/fitted_table.h"

namespace weightfs::info {
namespace {

constexpr size_t kMinTensorName = 16;
constexpr size_t kMaxKey = 32;     // columns; a longer key has a line of its own
constexpr size_t kMaxItems = 8;    // of a list that is shown
constexpr size_t kMaxValue = 400;  // bytes of a value that is shown

struct Cells {
  std::string name, dtype, shape, elements, size;
  bool is_refused = false;
};

Cells cells_of(const Subject& subject, size_t i, const Style& style) {
  const TensorView tensor = subject.model.tensors[i];
  Cells cells{clean(full_name(tensor), style),
              clean(dtype_text(tensor), style),
              shape_text(tensor.shape),
              "",
              bytes_text(listed_bytes(subject.model.tensors, i)),
              tensor.source.refused()};
  if (i < subject.counted.size()) cells.elements = grouped(subject.counted[i].elements);
  return cells;
}

const Cells& header() {
  static const Cells header{"tensor", "dtype", "shape", "elements", "size"};
  return header;
}

constexpr std::array kColumns = {&Cells::name, &Cells::dtype, &Cells::shape, &Cells::elements, &Cells::size};
constexpr std::array<size_t, 3> kLeftOutFirst = {3, 4, 2};  // elements, size, shape
using Widths = std::array<size_t, kColumns.size()>;         // 0: the column is left out

// Makes lines with `fixed` other columns fit into the terminal. Returns whether all columns are left.
bool fit_columns(Widths& widths, size_t fixed, const Style& style) {
  bool is_complete = true;
  const size_t least = std::min(widths[0], kMinTensorName);
  const auto others = [&] {
    size_t sum = fixed;
    for (size_t k = 1; k < widths.size(); ++k) sum += widths[k] == 0 ? 0 : kGap + widths[k];
    return sum;
  };
  for (const size_t k : kLeftOutFirst) {
    if (others() + least <= style.width) break;
    widths[k] = 0;
    is_complete = false;
  }
  if (const size_t sum = others() + least; sum > style.width) widths[1] -= std::min(widths[1], sum - style.width);
  widths[0] = std::min(widths[0], std::max(least, style.width - std::min(style.width, others())));
  return is_complete;
}

// A value that is in a file of its own: {"count" or "nbytes", "path"}.
std::string note_text(std::string_view key, const Map& note) {
  const std::string_view path = text_in(note, "path");
  const auto* const count = note.find_as<uint64_t>("count");
  const auto* const bytes = note.find_as<uint64_t>("nbytes");
  if ((count == nullptr && bytes == nullptr) || path.empty()) return "";
  if (count == nullptr) return fmt::format("{} ({})", bytes_text(*bytes), path);
  const std::string_view last = key.substr(key.rfind('.') + 1);
  return fmt::format("{} {} ({})", grouped(*count), last == "tokens" || last == "merges" ? last : "values", path);
}

std::string value_text(std::string_view key, const Value& value) {
  if (const auto* const map = std::get_if<Map>(&value))
    if (std::string note = note_text(key, *map); !note.empty()) return note;
  if (const auto* const text = std::get_if<std::string>(&value))
    return text->size() <= kMaxValue ? *text : fmt::format("text of {} (metadata.json)", bytes_text(text->size()));
  const auto* const list = std::get_if<List>(&value);
  if (list != nullptr && list->size() > kMaxItems) {
    const std::string_view last = key.substr(key.rfind('.') + 1);
    return fmt::format("{} {} (metadata.json)", grouped(list->size()),
                       last == "tokens" || last == "merges" ? last : "values");
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
  Widths widths{};
  const auto measure = [&](const Cells& cells) {
    for (size_t k = 0; k < kColumns.size(); ++k) widths[k] = std::max(widths[k], width_of(cells.*kColumns[k]));
  };
  measure(header());
  bool is_any_refused = false;
  for (size_t i = 0; i < tensors.size(); ++i) {
    measure(cells_of(subject, i, style));
    is_any_refused = is_any_refused || tensors.is_refused(i);
  }
  const size_t fixed = kGap + (is_any_refused ? std::string_view("refused").size() + kGap : 0);
  const bool is_complete = names == Names::complete || fit_columns(widths, fixed, style);
  const auto line_of = [&](const Cells& cells) {
    const std::string gap(kGap, ' ');
    std::string line;
    for (size_t k = 0; k < widths.size(); ++k) {
      if (widths[k] == 0) continue;
      const std::string& cell = cells.*kColumns[k];
      const std::string text = k == 0   ? shortened_name(cell, widths[k], style)
                               : k == 1 ? shortened(cell, widths[k], style)
                                        : cell;
      line += gap + (k < 3 ? left(text, widths[k]) : right(text, widths[k]));
    }
    if (cells.is_refused) return line + gap + painted("refused", Paint::red);
    return line.substr(0, line.find_last_not_of(' ') + 1);
  };
  write(line_of(header()));
  for (size_t i = 0; i < tensors.size(); ++i) write(line_of(cells_of(subject, i, style)));
  if (is_complete) return;
  for (const std::string& line : left_out_lines(style)) write(line);
}

void list_metadata(const Model& model, const Style& style, const WriteLine& write) {
  const Map common = flat(model.common);
  if (!common.empty()) list_values(common, style, write);
  const Map metadata = metadata_with_facts(model);
  if (metadata.empty()) return;
  if (!common.empty()) write("");
  write("metadata");
  list_values(metadata, style, write);
}

}  // namespace weightfs::info
