#include "fs/tree/numbering.h"

#include <algorithm>
#include <utility>

namespace weightfs {

TreeId Numbering::take(uint32_t nodes) { return std::exchange(next_, next_ + nodes); }

TreeId Numbering::add_updated(uint32_t nodes, std::optional<Ino> root) {
  const TreeId tree = take(nodes);
  ranges_.push_back({tree, tree, nodes, nodes});
  std::vector<Ino> numbers(nodes);
  for (uint32_t i = 0; i < nodes; ++i) numbers[i] = tree + i;
  if (root) numbers[0] = *root;
  set_numbers(tree, std::move(numbers));
  return tree;
}

void Numbering::set_numbers(TreeId tree, std::vector<Ino> numbers) {
  Updated& updated = updated_[tree];
  updated.nodes.clear();
  updated.nodes.reserve(numbers.size());
  for (uint32_t i = 1; i < numbers.size(); ++i) updated.nodes.emplace(numbers[i], i);
  updated.numbers = std::make_shared<const std::vector<Ino>>(std::move(numbers));
}

void Numbering::update(TreeId tree, std::vector<Ino> numbers) {
  const auto added = static_cast<uint32_t>(std::ranges::count(numbers, Ino{0}));
  if (added > 0) {
    Ino next = std::exchange(next_, next_ + added);
    ranges_.push_back({next, tree, added, added});
    for (Ino& number : numbers)
      if (number == 0) number = next++;
  }
  const NodeNumbers before = updated_.at(tree).numbers;
  set_numbers(tree, std::move(numbers));
  const auto& kept = updated_.at(tree).nodes;
  for (size_t i = 1; i < before->size(); ++i)
    if (!kept.contains((*before)[i])) release((*before)[i]);
}

// The range of the tree itself stays until the tree is removed: its first number is that of the tree.
void Numbering::release(Ino ino) {
  Range& range = ranges_[static_cast<size_t>(range_of(ino) - ranges_.data())];
  if (--range.used == 0 && range.first != range.tree) end(range);
}

// Ranges that have ended are removed together.
void Numbering::end(const Range& range) {
  ranges_[static_cast<size_t>(&range - ranges_.data())].tree = 0;
  if (++ended_ < ranges_.size() / 2) return;
  std::erase_if(ranges_, [](const Range& each) { return each.tree == 0; });
  ended_ = 0;
}

void Numbering::remove(TreeId tree) {
  const NodeNumbers numbers = updated_.at(tree).numbers;
  updated_.erase(tree);
  for (size_t i = 1; i < numbers->size(); ++i) release((*numbers)[i]);
  if (const Range* const range = range_of(tree)) end(*range);
}

const Numbering::Range* Numbering::range_of(Ino ino) const {
  const auto after = std::ranges::upper_bound(ranges_, ino, {}, &Range::first);
  if (after == ranges_.begin()) return nullptr;
  const Range& range = *std::prev(after);
  return range.tree != 0 && ino - range.first < range.count ? &range : nullptr;
}

std::optional<Position> Numbering::find(Ino ino) const {
  const Range* const range = range_of(ino);
  if (range == nullptr) return std::nullopt;
  const auto& [numbers, nodes] = updated_.at(range->tree);
  if ((*numbers)[0] == ino) return Position{range->tree, 0};
  const auto node = nodes.find(ino);
  return node == nodes.end() ? std::nullopt : std::optional(Position{range->tree, node->second});
}

}  // namespace weightfs
