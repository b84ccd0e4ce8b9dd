#include "formats/summary/block_rows.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>

#include "base/text.h"

namespace weightfs::summary {
namespace {

using Index = NameTree::Index;

constexpr uint64_t kStem = 0x5374656D;  // hashed with the stem of children with a common first word

// The word before the first '_'; empty if there is none.
std::string_view first_word(std::string_view name) {
  const size_t end = name.find('_');
  return end == name.npos ? std::string_view() : name.substr(0, end);
}

// "0…47", "3, 7, …, 47", "0, 1, 2, …, 46".
std::string label_of_numbers(std::vector<std::pair<uint64_t, std::string_view>> numbers) {
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  const size_t count = numbers.size();
  const auto text = [&](size_t i) { return numbers[i].second; };
  if (count == 1) return std::string(text(0));
  const uint64_t step = numbers[1].first - numbers[0].first;
  bool is_constant = true;
  for (size_t i = 2; i < count; ++i) is_constant = is_constant && numbers[i].first - numbers[i - 1].first == step;
  if (is_constant && step == 1) return fmt::format("{}…{}", text(0), text(count - 1));
  const size_t shown = is_constant ? 2 : 3;
  std::string out(text(0));
  for (size_t i = 1; i < std::min(shown, count); ++i) out += fmt::format(", {}", text(i));
  if (count > shown + 1) out += ", …";
  if (count > shown) out += fmt::format(", {}", text(count - 1));
  return out;
}

}  // namespace

BlockRow RowExpansion::root() const {
  BlockRow row;
  row.entries.push_back({NameTree::kRoot, 0, 0});
  row.bytes = total_;
  return row;
}

bool RowExpansion::has_one_child(const BlockRow& row) const { return tree_.has_one_child(row.entries.front().node); }

// The first words that two or more modules of a flat block share, such as the `attn` of `attn_q`; none if all share it.
std::vector<std::string_view> RowExpansion::common_stems(Index block) const {
  if (!tree_[block].is_numbered || !tree_[block].is_flat) return {};
  std::map<std::string_view, size_t> words;
  size_t children = 0;
  for (Index child = tree_[block].first_child; child != NameTree::kNone; child = tree_[child].next, ++children)
    if (const auto word = first_word(tree_[child].name); !word.empty()) ++words[word];
  std::vector<std::string_view> out;
  for (const auto& [word, count] : words)
    if (count > 1 && count < children) out.push_back(word);
  return out;
}

bool RowExpansion::can_expand(Index node) const {
  if (tree_[node].is_tensor) return false;
  if (!tree_[node].is_flat) return true;
  if (tree_.has_one_child(node)) return !tree_[node].is_module;
  return !common_stems(node).empty();
}

RowExpansion::Children RowExpansion::group_children(const BlockRow& row) const {
  Children out;
  const std::vector<std::string_view> stems = common_stems(row.entries.front().node);
  std::unordered_map<uint64_t, uint32_t> groups;  // by a keyed hash
  for (const BlockRow::Entry& entry : row.entries)
    for (Index index = tree_[entry.node].first_child; index != NameTree::kNone; index = tree_[index].next) {
      const NameTree::Node& child = tree_[index];
      const std::string_view word = stems.empty() ? std::string_view() : first_word(child.name);
      Group group{.text = child.name, .first = index};
      uint64_t key = keyed_hash(child.is_own ? 1 : 0, child.name);
      if (std::ranges::binary_search(stems, word)) {
        group.how = Group::stem;
        group.text = word;
        key = keyed_hash(kStem, word);
      } else if (child.is_numbered) {
        group.how = Group::numbered;
        group.text = child.name.substr(0, child.stem);
        key = keyed_hash(child.shape, group.text);
      }
      const auto found = groups.try_emplace(key, static_cast<uint32_t>(out.groups.size())).first;
      if (found->second == out.groups.size()) out.groups.push_back(group);
      out.groups[found->second].bytes += child.bytes;
      ++out.groups[found->second].entries;
      out.all.push_back({{index, entry.member, entry.outer}, found->second});
    }
  return out;
}

// Marks the groups that are shown in one row. False if there are too many others.
bool RowExpansion::merge_groups(const BlockRow& row, Children& found, size_t most, Excess excess) const {
  const uint64_t small = total_ / 100 + (total_ % 100 != 0 ? 1 : 0);
  size_t merged = 0;
  if (row.fold)
    for (Group& group : found.groups) merged += (group.is_merged = group.bytes < small) ? 1u : 0u;
  if (merged == 1)
    for (Group& group : found.groups) group.is_merged = false;
  const size_t rows = found.groups.size() - merged + (merged > 0 ? 1 : 0);
  if (rows <= most) return true;
  if (excess == Excess::refuse) return false;
  std::vector<std::pair<uint64_t, size_t>> by_size;
  for (size_t i = 0; i < found.groups.size(); ++i) by_size.emplace_back(~found.groups[i].bytes, i);
  const size_t kept = std::max<size_t>(most, 1) - 1;
  std::nth_element(by_size.begin(), by_size.begin() + static_cast<std::ptrdiff_t>(kept), by_size.end());
  for (size_t i = 0; i < by_size.size(); ++i) found.groups[by_size[i].second].is_merged = i >= kept;
  return true;
}

void RowExpansion::Children::sort_by_group() {
  std::ranges::stable_sort(all, {}, &Child::group);
  size_t begin = 0;
  for (Group& group : groups) begin += group.entries, group.begin = begin - group.entries;
}

BlockRow RowExpansion::row_of(const BlockRow& parent, const Children& found, const Group& group) {
  const NameTree::Node& first = tree_[group.first];
  BlockRow row{.path = parent.path,
               .entries = {},
               .bytes = group.bytes,
               .members = parent.members,
               .fold = parent.fold,
               .fold_path = parent.fold_path,
               .fold_members = parent.fold_members};
  row.entries.reserve(group.entries);
  if (first.separator != 0) row.path += first.separator;
  row.path += group.text;
  if (group.how == Group::stem) row.path += "_*";
  if (group.how != Group::numbered) {
    for (const Child& child : found.of(group)) row.entries.push_back(child.entry);
    row.is_final = group.how == Group::stem || !can_expand(group.first);
    return row;
  }
  std::vector<std::pair<uint64_t, std::string_view>> numbers;
  numbers.reserve(group.entries);
  for (const Child& child : found.of(group)) {
    const auto member = static_cast<uint32_t>(row.entries.size());
    row.entries.push_back({child.entry.node, member, parent.fold ? child.entry.outer : member});
    const std::string_view digits = tree_[child.entry.node].name.substr(group.text.size());
    numbers.emplace_back(parse_number<uint64_t>(digits).value_or(0), digits);
  }
  row.path += label_of_numbers(std::move(numbers));
  row.members = static_cast<uint32_t>(row.entries.size());
  if (!parent.fold) {
    row.fold = folds_++;
    row.fold_path = row.path;
    row.fold_members = row.members;
  }
  row.is_final = !can_expand(group.first);
  return row;
}

// The row of the merged groups: of their outermost fold, or of their parent.
BlockRow RowExpansion::others_of(const BlockRow& parent, const Children& found) const {
  const std::string& path = parent.fold ? parent.fold_path : parent.path;
  BlockRow row{.path = path.empty() ? "other" : path + ": other",
               .entries = {},
               .members = parent.fold ? parent.fold_members : parent.members,
               .fold = parent.fold,
               .fold_path = parent.fold_path,
               .fold_members = parent.fold_members,
               .is_final = true};
  for (const auto& [entry, group] : found.all) {
    if (!found.groups[group].is_merged) continue;
    row.entries.push_back({entry.node, parent.fold ? entry.outer : entry.member, entry.outer});
    row.bytes += tree_[entry.node].bytes;
  }
  return row;
}

std::optional<std::vector<BlockRow>> RowExpansion::children(const BlockRow& row, size_t most, Excess excess) {
  Children found = group_children(row);
  if (!merge_groups(row, found, most, excess)) return std::nullopt;
  found.sort_by_group();
  std::vector<BlockRow> rows;
  bool has_others = false;
  for (const Group& group : found.groups) {
    if (!group.is_merged)
      rows.push_back(row_of(row, found, group));
    else if (!std::exchange(has_others, true))
      rows.push_back(others_of(row, found));
  }
  return rows;
}

bool RowExpansion::is_mergeable(const BlockRow& row) const {
  return row.fold && (row.is_small(total_) || row.path == row.fold_path + ": other");
}

bool RowExpansion::replace(std::vector<BlockRow>& rows, size_t place, std::vector<BlockRow> children,
                           size_t most) const {
  std::map<size_t, size_t> small;  // rows by their fold
  for (size_t i = 0; i < rows.size(); ++i)
    if (i != place && is_mergeable(rows[i])) ++small[*rows[i].fold];
  for (const BlockRow& row : children)
    if (is_mergeable(row)) ++small[*row.fold];
  size_t lines = rows.size() - 1 + children.size();
  for (const auto& [fold, count] : small) lines -= count - 1;
  if (lines > most) return false;

  std::map<size_t, size_t> places;  // of the merged rows
  std::vector<BlockRow> out;
  const auto add = [&](BlockRow&& row) {
    if (!is_mergeable(row) || small[*row.fold] < 2) return out.push_back(std::move(row));
    const auto [merged, is_first] = places.try_emplace(*row.fold, out.size());
    if (is_first)
      out.push_back({.path = row.fold_path + ": other",
                     .entries = {},
                     .members = row.fold_members,
                     .fold = row.fold,
                     .fold_path = row.fold_path,
                     .fold_members = row.fold_members,
                     .is_final = true});
    BlockRow& others = out[merged->second];
    others.bytes += row.bytes;
    for (const auto& [node, member, outer] : row.entries) others.entries.push_back({node, outer, outer});
  };
  for (size_t i = 0; i < rows.size(); ++i) {
    if (i != place) add(std::move(rows[i]));
    for (size_t k = 0; i == place && k < children.size(); ++k) add(std::move(children[k]));
  }
  rows = std::move(out);
  return true;
}

}  // namespace weightfs::summary
