#include "formats/summary/blocks.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/budget.h"
#include "formats/model.h"
#include "formats/summary/block_rows.h"
#include "formats/summary/name_tree.h"

namespace weightfs::summary {
namespace {

constexpr size_t kMinLines = 2;
constexpr size_t kTypes = 64;  // that are told apart in a row: bits of a mask

// The bytes of each tensor; of a refused one by its shape. Their sum does not overflow.
std::vector<uint64_t> sizes_of(const TensorList& tensors, std::span<const Counted> counted) {
  std::vector<uint64_t> out(tensors.size());
  const uint64_t most = UINT64_MAX / std::max<size_t>(tensors.size(), 1);
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (counted[i].role == Role::duplicate) continue;
    out[i] = std::min(listed_bytes(tensors, i), most);
  }
  return out;
}

// The names of types that occur, each with a number.
class Types {
 public:
  size_t number_of(const TensorList& tensors, size_t tensor) {
    const DType* const dtype = tensors.dtype(tensor);
    if (dtype == last_) return last_number_;
    const bool is_known = dtype != &kUnknownDType;
    const std::string_view name = is_known ? dtype->name : tensors[tensor].stored_dtype;
    const auto found = std::ranges::find(names_, name);
    const auto number = static_cast<size_t>(found - names_.begin());
    if (found == names_.end()) {
      if (names_.size() == kTypes) return kTypes - 1;  // a model with more has made them up
      names_.push_back(name);
    }
    if (is_known) last_ = dtype, last_number_ = number;
    return number;
  }
  std::span<const std::string_view> names() const { return names_; }

 private:
  std::vector<std::string_view> names_;
  const DType* last_ = nullptr;
  size_t last_number_ = 0;
};

// What a row has of each tensor in it.
class Sums {
 public:
  Sums(const TensorList& tensors, std::span<const Counted> counted)
      : tensors_(tensors), counted_(counted), sizes_(sizes_of(tensors, counted)) {}

  std::span<const uint64_t> sizes() const { return sizes_; }

  size_t add_row(std::string path, uint64_t members) {
    blocks_.push_back({.path = std::move(path), .members = members, .dtypes = {}, .members_with = {}});
    by_type_.emplace_back();
    types_of_members_.emplace_back(members);
    return blocks_.size() - 1;
  }

  void add(size_t row, uint32_t member, size_t tensor) {
    Block& block = blocks_[row];
    const Role role = counted_[tensor].role;
    block.bytes += sizes_[tensor];
    block.refused += tensors_.is_refused(tensor) ? 1u : 0u;
    if (role == Role::companion) return;
    ++block.tensors;
    block.duplicates += role == Role::duplicate ? 1u : 0u;
    if (role == Role::duplicate) return;
    block.unknown += counted_[tensor].is_known ? 0u : 1u;
    if (role == Role::parameter) block.parameters += std::min(counted_[tensor].elements, UINT64_MAX / tensors_.size());
    const size_t type = types_.number_of(tensors_, tensor);
    by_type_[row].resize(std::max(by_type_[row].size(), type + 1));
    by_type_[row][type] += sizes_[tensor];
    types_of_members_[row][member] |= uint64_t{1} << type;
  }

  size_t type_of(size_t tensor) { return types_.number_of(tensors_, tensor); }
  std::span<const std::string_view> type_names() const { return types_.names(); }

  std::vector<Block> finish() && {
    for (size_t row = 0; row < blocks_.size(); ++row)
      for (size_t type = 0; type < by_type_[row].size(); ++type) {
        const auto has_type = [&](uint64_t mask) { return (mask >> type & 1) != 0; };
        const auto members = std::ranges::count_if(types_of_members_[row], has_type);
        if (members == 0) continue;
        const std::string name(types_.names()[type]);
        blocks_[row].dtypes.emplace(name, by_type_[row][type]);
        blocks_[row].members_with.emplace(name, members);
      }
    return std::move(blocks_);
  }

 private:
  const TensorList& tensors_;
  std::span<const Counted> counted_;
  std::vector<uint64_t> sizes_;
  Types types_;
  std::vector<Block> blocks_;
  std::vector<std::vector<uint64_t>> by_type_;           // bytes, by row
  std::vector<std::vector<uint64_t>> types_of_members_;  // a bit per type, by row
};

// The rows of the table: the largest row with at least five percent of the bytes, or with one child, is replaced by its
// children as long as the table has enough lines.
std::vector<BlockRow> rows_of(const NameTree& tree, size_t lines) {
  RowExpansion expansion(tree);
  std::vector<BlockRow> rows{expansion.root()};
  const uint64_t total = tree[NameTree::kRoot].bytes;
  const uint64_t large = total / 20 + (total % 20 != 0 ? 1 : 0);
  while (true) {
    BlockRow* largest = nullptr;
    for (BlockRow& row : rows) {
      const bool is_candidate = !row.is_final && (row.bytes >= large || expansion.has_one_child(row));
      if (is_candidate && (largest == nullptr || row.bytes > largest->bytes)) largest = &row;
    }
    if (largest == nullptr) return rows;
    const auto excess = rows.size() == 1 ? RowExpansion::Excess::merge_smallest : RowExpansion::Excess::refuse;
    auto children = expansion.children(*largest, lines, excess);
    const auto place = static_cast<size_t>(largest - rows.data());
    if (!children || !expansion.replace(rows, place, std::move(*children), lines)) largest->is_final = true;
  }
}

std::vector<Block> blocks_of(const NameTree& tree, size_t lines, Sums sums, size_t tensors) {
  struct Place {
    uint32_t row = UINT32_MAX;
    uint32_t member = 0;
  };
  std::vector<Place> places(tree.size());  // of nodes
  for (const BlockRow& row : rows_of(tree, lines)) {
    const auto number = static_cast<uint32_t>(sums.add_row(row.path, row.members));
    for (const BlockRow::Entry& entry : row.entries) places[entry.node] = {number, entry.member};
  }
  for (NameTree::Index node = 1; node < tree.size(); ++node)  // a parent is before its children
    if (places[node].row == UINT32_MAX) places[node] = places[tree[node].parent];
  for (size_t i = 0; i < tensors; ++i) {
    const Place& place = places[tree.node_of(i)];
    sums.add(place.row, place.member, i);
  }
  return std::move(sums).finish();
}

// The maximum number of nodes in the tree of the names.
uint64_t components_of(const TensorList& tensors) {
  uint64_t count = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const auto is_separator = [](char c) { return c == '.' || c == '/' || c == '_'; };
    const auto in = [&](std::string_view text) {
      return static_cast<uint64_t>(std::ranges::count_if(text, is_separator));
    };
    count += std::min<uint64_t>(in(tensors.name(i)) + in(tensors.scope(i)) + 2, NameTree::kMaxComponents + 1);
  }
  return count;
}

// A row per type, the largest first; the smallest are one row if there are too many.
std::vector<Block> blocks_by_type(Sums sums, size_t lines, size_t tensors) {
  std::vector<std::pair<uint64_t, size_t>> types;  // bytes, number
  for (size_t i = 0; i < tensors; ++i) {
    const size_t type = sums.type_of(i);
    while (types.size() <= type) types.emplace_back(0, types.size());
    types[type].first += sums.sizes()[i];
  }
  std::ranges::stable_sort(types, std::ranges::greater(), &std::pair<uint64_t, size_t>::first);
  std::vector<size_t> row_of(types.size());
  for (size_t i = 0; i < types.size(); ++i) {
    const bool is_other = types.size() > lines && i + 1 >= lines;
    if (is_other && i >= lines)
      row_of[types[i].second] = lines - 1;
    else
      row_of[types[i].second] = sums.add_row(is_other ? "other" : std::string(sums.type_names()[types[i].second]), 1);
  }
  for (size_t i = 0; i < tensors; ++i) sums.add(row_of[sums.type_of(i)], 0, i);
  return std::move(sums).finish();
}

}  // namespace

std::vector<Block> fold_blocks(const TensorList& tensors, std::span<const Counted> counted, size_t lines,
                               size_t max_nodes) {
  if (tensors.empty()) return {};
  lines = std::max(lines, kMinLines);
  Sums sums(tensors, counted);
  const auto tree = NameTree::build(tensors, counted, sums.sizes(), max_nodes);
  if (!tree) return blocks_by_type(std::move(sums), lines, tensors.size());
  return blocks_of(*tree, lines, std::move(sums), tensors.size());
}

std::vector<Block> fold_blocks(const Model& model, std::span<const Counted> counted, size_t lines) {
  const TensorList& tensors = model.tensors;
  if (counted.size() != tensors.size()) return {};
  if (model.budget == nullptr) return fold_blocks(tensors, counted, lines);
  const uint64_t most = std::min<uint64_t>(components_of(tensors), kMaxNameNodes);
  // A list that outgrows its reservation is copied: the old and the new one are in memory at a time.
  const uint64_t nodes = most > NameTree::kNodesPerTensor * tensors.size() ? 2 * most : most;
  const bool is_paid = model.budget->charge(Cost::node, nodes).has_value();
  auto blocks = fold_blocks(tensors, counted, lines, is_paid ? kMaxNameNodes : 0);
  if (is_paid) model.budget->release(Cost::node, nodes);
  return blocks;
}

List to_list(std::span<const Block> blocks) {
  List out;
  for (const Block& block : blocks) {
    Map dtypes;
    for (const auto& [name, bytes] : block.dtypes) dtypes.append(name, bytes);
    Map row;
    row.append("path", block.path);
    row.append("members", block.members);
    row.append("tensors", block.tensors);
    if (block.unknown == 0) row.append("parameters", block.parameters);
    row.append("bytes", block.bytes);
    row.append("dtypes", std::move(dtypes));
    out.emplace_back(std::move(row));
  }
  return out;
}

}  // namespace weightfs::summary
