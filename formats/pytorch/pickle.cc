#include "formats/pytorch/pickle.h"

#include <bit>

namespace weightfs::pytorch {

std::optional<int64_t> Pickle::integer(Index value) const {
  if (kind(value) != Kind::integer && kind(value) != Kind::boolean) return std::nullopt;
  return static_cast<int64_t>(nodes_[value].number);
}

double Pickle::real(Index value) const { return std::bit_cast<double>(nodes_[value].number); }

std::string_view Pickle::text(Index value) const {
  const Node& node = nodes_[value];
  return node.text == nullptr ? std::string_view() : std::string_view(node.text, node.number);
}

std::string_view Pickle::global(Index value) const {
  return kind(value) == Kind::global ? std::string_view(globals_[nodes_[value].a]) : std::string_view();
}

Call Pickle::call(Index value) const {
  const Node& node = nodes_[value];
  return {node.a, node.b, node.c, static_cast<Index>(node.number), static_cast<Index>(node.number >> 32)};
}

std::vector<Index> Pickle::items(Index value, size_t most) const {
  std::vector<Index> items;
  if (!is_container(value)) return items;
  items.reserve(std::min<size_t>(most, nodes_[value].c));
  for (Index at = nodes_[value].a; at != kNoValue && items.size() < most; at = items_[at].next)
    items.push_back(items_[at].value);
  return items;
}

}  // namespace weightfs::pytorch
