#include "report/info/block_table.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "report/text/shown_names.h"

namespace weightfs::info {
namespace {

using summary::Block;

constexpr size_t kMinName = 15;
constexpr size_t kMinNarrowName = 12;
constexpr size_t kMinTypes = 13;
constexpr size_t kTensors = 9;  // columns of the numbers of tensors, if there is room
constexpr size_t kBarCells = 8;
constexpr size_t kBarWidth = 100;  // of a terminal from which on there are bars

// Whether a component of a path is a number, or the numbers of a fold: "0…47", "3, 7, …, 47".
bool is_numbers(std::string_view component) {
  constexpr std::string_view kDots = "…";
  bool has_digit = false;
  while (!component.empty()) {
    const char c = component.front();
    const bool are_dots = component.starts_with(kDots);
    if (!are_dots && c != ',' && c != ' ' && (c < '0' || c > '9')) return false;
    has_digit = has_digit || (c >= '0' && c <= '9');
    component.remove_prefix(are_dots ? kDots.size() : 1);
  }
  return has_digit;
}

// The end of the components that only wrap the model: those before the first one with repeated blocks, and before the
// last one.
size_t end_of_wrapping(std::string_view path) {
  const size_t end_of_name = path.ends_with(": other") ? path.size() - std::string_view(": other").size() : path.size();
  size_t end = 0;
  for (size_t begin = 0;;) {
    const size_t dot = path.substr(0, end_of_name).find_first_of("./", begin);
    if (dot == path.npos) return end;
    const size_t next = std::min(path.substr(0, end_of_name).find_first_of("./", dot + 1), end_of_name);
    if (is_numbers(path.substr(begin, dot - begin)) || is_numbers(path.substr(dot + 1, next - dot - 1))) return end;
    begin = end = dot + 1;
  }
}

// The beginning that most rows share, such as "model.", if they are more than half; the longest of them.
std::string common_prefix(std::span<const Block> blocks) {
  std::map<std::string_view, size_t> counts;
  for (const Block& block : blocks)
    for (size_t end = end_of_wrapping(block.path); end > 0;) {
      ++counts[std::string_view(block.path).substr(0, end)];
      const size_t before = end < 2 ? std::string::npos : block.path.find_last_of("./", end - 2);
      end = before == std::string::npos ? 0 : before + 1;
    }
  std::string_view best;
  size_t most = blocks.size() / 2 + 1;
  for (const auto& [prefix, count] : counts)  // a longer one is after its own beginning
    if (count >= most) best = prefix, most = count;
  return std::string(best);
}

// "(MTP)" behind a layer that predicts further tokens: those after the layers of the model.
bool predicts_tokens(const Block& block, const summary::Summary& summary) {
  if (!summary.parameters_mtp || !summary.layers || block.members > 1) return false;
  const std::string_view path = block.path;
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find_first_of("./:", begin), path.size());
    if (const auto number = parse_number<uint64_t>(path.substr(begin, end - begin))) return *number >= *summary.layers;
    begin = end + 1;
  }
  return false;
}

// The name on a narrow screen: the last component with the number of members, "…attn_* ×32".
std::string short_name(const Block& block, std::string_view prefix, const Style& style) {
  std::string_view path = block.path;
  if (path.starts_with(prefix)) path.remove_prefix(prefix.size());
  if (block.members == 1) return clean(path, style);
  const std::string times = fmt::format(" {}{}", style.times(), block.members);
  if (path.ends_with(": other")) return "other" + times;
  size_t begin = path.find_last_of("./");
  if (begin != path.npos && is_numbers(path.substr(begin + 1))) {
    path = path.substr(0, begin);
    begin = path.find_last_of("./");
  }
  const bool is_whole = begin == path.npos;
  return fmt::format("{}{}{}", is_whole ? "" : style.ellipsis(), clean(is_whole ? path : path.substr(begin + 1), style),
                     times);
}

std::string long_name(const Block& block, std::string_view prefix, const summary::Summary& summary,
                      const Style& style) {
  std::string_view path = block.path;
  if (path.starts_with(prefix)) path.remove_prefix(prefix.size());
  std::string out = clean(path, style);
  if (out.empty()) out = "\"\"";
  return predicts_tokens(block, summary) ? out + " (MTP)" : out;
}

// The types of a row, and how many members have those that not all have: "q4_k, 16 with q6_k; float32".
std::string types_of(const Block& block, const Style& style) {
  std::vector<std::pair<uint64_t, std::string>> types;  // bytes, name
  for (const auto& [name, bytes] : block.dtypes) types.emplace_back(bytes, name);
  std::ranges::stable_sort(types, std::ranges::greater(), &std::pair<uint64_t, std::string>::first);
  std::string of_all, of_some, first;
  for (const auto& [bytes, name] : types) {
    const uint64_t members = block.members_with.at(name);
    if (members < block.members && !first.empty())
      of_some += fmt::format("{}{} with {}", of_some.empty() ? "" : ", ", members, name);
    else if (first.empty())
      first = name;
    else
      of_all += (of_all.empty() ? "" : ", ") + name;
  }
  std::string out = first;
  if (!of_some.empty()) out += ", " + of_some;
  if (!of_all.empty()) out += (of_some.empty() ? ", " : "; ") + of_all;
  if (out.empty() && block.duplicates > 0) out = "duplicate";
  return clean(out, style);
}

// The cell of the types in at most `width` columns: first the other types are left out.
std::string types_cell(const Block& block, size_t width, const Style& style) {
  std::string types = types_of(block, style);
  const bool are_all_refused = block.refused > 0 && block.refused >= block.tensors;
  const std::string refused = block.refused == 0 ? ""
                              : are_all_refused  ? "refused"
                                                 : fmt::format("{} refused", block.refused);
  if (are_all_refused) return painted(cut(refused, width, style), Paint::red);
  const size_t room = width - std::min(width, refused.empty() ? 0 : width_of(refused) + 2);
  if (const size_t comma = types.find(','); width_of(types) > room && comma != types.npos)
    types = fmt::format("{}, {}", types.substr(0, comma), style.ellipsis());
  if (refused.empty()) return cut(types, room, style);
  return cut(types, room, style) + (room > 0 ? "; " : "") + painted(refused, Paint::red);
}

std::string bar(uint64_t part, uint64_t whole) {
  constexpr std::array<std::string_view, 8> kEighths = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const double share = whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
  const auto eighths = static_cast<size_t>(share * kBarCells * 8 + 0.5);
  std::string out;
  for (size_t i = 0; i < eighths / 8; ++i) out += "█";
  return out + std::string(kEighths[eighths % 8]);
}

struct Row {
  std::string name, tensors, each, size, percent, bar;
  bool is_small = false;      // less than a percent
  bool has_own_line = false;  // the name
};

Row row_of(const Block& block, std::string name, uint64_t total, const Style& style) {
  Row row{std::move(name), grouped(block.tensors), {}, bytes_text(block.bytes), percent_text(block.bytes, total), {}};
  if (block.members > 1) {
    const bool is_even = block.tensors % block.members == 0;
    row.tensors = is_even ? fmt::format("{} {} {}", block.tensors / block.members, style.times(), block.members)
                          : fmt::format("{} in {}", block.tensors, block.members);
  }
  row.each = block.unknown > 0 ? "?" : parameters_text(block.parameters / block.members);
  row.bar = bar(block.bytes, total);
  row.is_small = row.percent == "0";
  return row;
}

class BlockTable {
 public:
  BlockTable(std::span<const Block> blocks, const summary::Summary& summary, const Style& style)
      : blocks_(blocks), style_(style) {
    uint64_t total = 0;
    for (const Block& block : blocks) total += block.bytes;
    const std::string prefix = common_prefix(blocks);
    const bool is_named = !prefix.empty() && !style.is_narrow();
    header_.name = is_named ? fmt::format("block ({})", clean(prefix, style)) : "block";
    const auto long_of = [&](const Block& block) { return long_name(block, prefix, summary, style); };
    std::map<std::string, size_t> counts;
    for (const Block& block : blocks) {
      rows_.push_back(
          row_of(block, style.is_narrow() ? short_name(block, prefix, style) : long_of(block), total, style));
      ++counts[rows_.back().name];
    }
    for (size_t i = 0; i < blocks.size(); ++i)
      if (counts[rows_[i].name] > 1) rows_[i].name = long_of(blocks[i]);
  }

  std::vector<std::string> lines() {
    has_bars_ = style_.width >= kBarWidth && style_.charset == Charset::utf8;
    const auto measure = [this](std::string Row::*member, size_t least) {
      size_t width = std::max(least, width_of(header_.*member));
      for (const Row& row : rows_) width = std::max(width, width_of(row.*member));
      return width;
    };
    name_ = measure(&Row::name, style_.is_narrow() ? kMinNarrowName : kMinName);
    const size_t tensors = measure(&Row::tensors, 0);
    tensors_ = std::max(tensors, kTensors);
    each_ = measure(&Row::each, 0);
    size_ = measure(&Row::size, 8);
    percent_ = measure(&Row::percent, 2);
    fit(tensors);
    std::map<std::string, size_t> counts;  // of names that are shortened
    for (const Row& row : rows_) ++counts[shortened(row.name, name_, style_)];
    std::vector<std::string> out;
    add_lines(header_, "types", out);
    for (size_t i = 0; i < rows_.size(); ++i) {
      rows_[i].has_own_line = counts[shortened(rows_[i].name, name_, style_)] > 1;
      add_lines(rows_[i], style_.is_narrow() ? "" : types_cell(blocks_[i], types_, style_), out);
    }
    return out;
  }

 private:
  // Shares the width among the names, the types and the numbers of tensors, which need at least `tensors`.
  void fit(size_t tensors) {
    const size_t numbers = kIndent + kGap + each_ + kGap + size_ + kGap + percent_ + (has_bars_ ? kGap + kBarCells : 0);
    size_t others = numbers, types = 0;
    if (!style_.is_narrow()) {
      for (const Block& block : blocks_) types = std::max(types, width_of(types_cell(block, style_.width, style_)));
      const size_t rest = numbers + 2 * kGap + types + name_;
      if (rest + tensors_ > style_.width && rest + tensors <= style_.width) tensors_ = tensors;
      others += kGap + tensors_;
      types = kGap + std::max(std::min(types, kMinTypes), std::string_view("types").size());
    }
    name_ = std::min(name_, style_.width - std::min(style_.width - 4, others + types));
    types_ = style_.width - std::min(style_.width, name_ + others + kGap);
  }

  // A name that would look like another one if it was shortened has lines of its own.
  void add_lines(const Row& row, std::string_view types, std::vector<std::string>& lines) const {
    const std::string gap(kGap, ' ');
    const bool is_above = row.has_own_line && width_of(row.name) > name_;
    if (is_above)
      for (const std::string& line : broken_name(row.name, style_.width - kIndent))
        lines.push_back(std::string(kIndent, ' ') + line);
    std::string out = std::string(kIndent, ' ') + left(is_above ? "" : shortened(row.name, name_, style_), name_);
    if (!style_.is_narrow()) out += gap + right(row.tensors, tensors_);
    out += gap + right(row.each, each_) + gap + right(row.size, size_) + gap;
    const std::string percent = right(row.percent, percent_);
    out += row.is_small ? painted(percent, Paint::dim) : percent;
    if (has_bars_) out += gap + left(row.bar, kBarCells);
    if (!style_.is_narrow()) out += fmt::format("{}{}", gap, types);
    while (out.ends_with(' ')) out.pop_back();
    lines.push_back(std::move(out));
  }

  std::span<const Block> blocks_;
  const Style& style_;
  Row header_{"block", "tensors", "each", "size", "%", ""};
  std::vector<Row> rows_;
  size_t name_ = 0, tensors_ = 0, each_ = 0, size_ = 0, percent_ = 0, types_ = 0;
  bool has_bars_ = false;
};

}  // namespace

std::vector<std::string> block_table(std::span<const Block> blocks, const summary::Summary& summary,
                                     const Style& style) {
  if (blocks.empty()) return {};
  return BlockTable(blocks, summary, style).lines();
}

}  // namespace weightfs::info
