#include "report/text/fitted_table.h"

#include <algorithm>

namespace weightfs::info {
namespace {

constexpr size_t kMaxNote = 24, kMaxNarrowNote = 8;  // columns
constexpr size_t kMaxCounted = 200;                  // a longer name has a line of its own on any usual terminal

}  // namespace

FittedTable::FittedTable(std::vector<FittedColumn> columns, ShownNames names, const Style& style, size_t width)
    : columns_(std::move(columns)),
      names_(std::move(names)),
      style_(style),
      width_(width),
      has_text_(columns_.size(), false),
      name_widths_(kMaxCounted + 1) {
  for (const FittedColumn& column : columns_) widths_.push_back(width_of(column.name));
}

void FittedTable::measure(const FittedRow& row) {
  for (size_t i = 1; i < columns_.size(); ++i) {
    if (!is_below(i, row)) widths_[i] = std::max(widths_[i], width_of(row[i]));
    has_text_[i] = has_text_[i] || !row[i].empty();
  }
  ++name_widths_[std::min(width_of(names_.shown(row[0], names_.shortest())), kMaxCounted)];
}

bool FittedTable::is_below(size_t column, const FittedRow& row) const {
  const size_t most = style_.is_narrow() ? kMaxNarrowNote : kMaxNote;
  return width_ > 0 && columns_[column].is_note && width_of(row[column]) > most;
}

// The columns of the terminal that cells take, with the gaps before them.
size_t FittedTable::others(const std::vector<size_t>& shown) const {
  size_t sum = 0;
  for (const size_t i : shown) sum += kGap + widths_[i];
  return sum;
}

std::vector<size_t> FittedTable::with_text() const {
  std::vector<size_t> out;
  for (size_t i = 1; i < columns_.size(); ++i)
    if (has_text_[i]) out.push_back(i);
  return out;
}

// Leaves columns out until names have so many columns; of the same rank, the right one.
FittedTable::Layout FittedTable::left_over(size_t least_name) const {
  Layout layout{with_text()};
  while (layout.shown.size() > 1 && others(layout.shown) + least_name > width_) {
    auto last = layout.shown.begin();
    for (auto i = last; i != layout.shown.end(); ++i)
      if (columns_[*i].rank >= columns_[*last].rank) last = i;
    layout.has_essentials = layout.has_essentials && columns_[*last].rank > 1;
    layout.shown.erase(last);
  }
  layout.has_essentials = layout.has_essentials && others(layout.shown) + least_name <= width_;
  return layout;
}

void FittedTable::fit() {
  const Layout all{with_text()};
  for (const NameForm form : ShownNames::kForms) {
    if (form > names_.shortest()) break;
    form_ = form;
    layout_ = all;
    layout_.name = std::max(names_.width(form), width_of(columns_.front().name));
    if (width_ == 0 || layout_.name + others(all.shown) <= width_) {
      const size_t header = width_of(names_.header(columns_.front().name, form, style_));
      if (width_ == 0 || header + others(all.shown) <= width_) layout_.name = std::max(layout_.name, header);
      return;
    }
  }
  const size_t widest = layout_.name;
  layout_ = left_over(std::min(widest, width_ / 2));
  layout_.name = std::min(widest, width_ - std::min(width_, others(layout_.shown)));
  size_t rows = 0, long_names = 0;
  for (size_t i = 0; i < name_widths_.size(); ++i) {
    rows += name_widths_[i];
    if (i > layout_.name) long_names += name_widths_[i];
  }
  const Layout below = left_over(0);
  if (2 * long_names > rows || (!layout_.has_essentials && below.has_essentials)) layout_ = below;
  is_complete_ = layout_.shown.size() == all.shown.size();
}

std::vector<std::string> FittedTable::lines(std::string_view name, const FittedRow& row) const {
  const std::string gap(kGap, ' ');
  std::vector<std::string> out;
  std::string line;
  if (layout_.shown.empty() || width_of(name) > layout_.name) {
    out = broken_name(name, width_ == 0 ? width_of(name) : width_);
    line = std::string(layout_.name, ' ');
  } else {
    line = columns_.front().is_left ? left(name, layout_.name) : right(name, layout_.name);
  }
  for (const size_t i : layout_.shown) {
    const size_t width = width_ == 0 ? widths_[i] : std::min(widths_[i], width_ - kGap);
    const std::string cell = is_below(i, row)           ? ""
                             : width_of(row[i]) > width ? shortened(row[i], width, style_)
                                                        : row[i];
    line += gap + (columns_[i].is_left ? left(cell, width) : right(cell, width));
  }
  line.erase(line.find_last_not_of(' ') + 1);
  if (!line.empty()) out.push_back(std::move(line));
  for (const size_t i : layout_.shown)
    if (is_below(i, row))
      for (const std::string& part : wrapped(row[i], width_ - 2 * kGap, style_)) out.push_back(gap + gap + part);
  return out;
}

std::vector<std::string> FittedTable::header_lines() const {
  FittedRow row;
  for (const FittedColumn& column : columns_) row.push_back(column.name);
  std::vector<std::string> out = lines(names_.header(row.front(), form_, style_), row);
  for (std::string& line : out) line = painted(line, Paint::bold);
  return out;
}

std::vector<std::string> FittedTable::lines_of(const FittedRow& row) const {
  return lines(names_.shown(row.front(), form_), row);
}

FittedLines fitted_table(const std::vector<FittedColumn>& columns, const std::vector<FittedRow>& rows,
                         const Style& style) {
  ShownNames names(rows.size(), [&](size_t row) { return rows[row].front(); });
  FittedTable table(columns, std::move(names), style, style.width);
  for (const FittedRow& row : rows) table.measure(row);
  table.fit();
  if (rows.empty()) return {{}, true};
  FittedLines out{table.header_lines(), table.is_complete()};
  for (const FittedRow& row : rows)
    for (std::string& line : table.lines_of(row)) out.lines.push_back(std::move(line));
  return out;
}

std::vector<std::string> left_out_lines(const Style& style) {
  std::vector<std::string> lines =
      wrapped("Columns are left out; a wider terminal, a pipe or --json has them all.", style.width, style);
  for (std::string& line : lines) line = painted(line, Paint::dim);
  return lines;
}

}  // namespace weightfs::info
