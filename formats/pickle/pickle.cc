#include "formats/pickle/pickle.h"

#include <bit>

namespace weightfs::pickle {

const Pickle::Node Pickle::kMissing{};

std::optional<int64_t> Pickle::integer(Index value) const {
  if (kind(value) != Kind::integer && kind(value) != Kind::boolean) return std::nullopt;
  return static_cast<int64_t>(nodes_[value].number);
}

double Pickle::real(Index value) const { return std::bit_cast<double>(node(value).number); }

std::string_view Pickle::text(Index value) const {
  const Node& found = node(value);
  return found.text == nullptr ? std::string_view() : std::string_view(found.text, found.number);
}

Place Pickle::place(Index value) const {
  if (!is_text(value)) return {};
  const Node& node = nodes_[value];
  return {uint64_t{node.b} << 32 | node.a, node.number, static_cast<Spelling>(node.c)};
}

std::string_view Pickle::global(Index value) const {
  return kind(value) == Kind::global ? std::string_view(globals_[nodes_[value].a].text) : std::string_view();
}

Call Pickle::call(Index value) const {
  const Node& node = nodes_[value];
  return {node.a, node.b, node.c, static_cast<Index>(node.number), static_cast<Index>(node.number >> 32)};
}

std::vector<Index> Pickle::calls_of(std::string_view global) const {
  std::vector<Index> found;
  std::vector<bool> called(nodes_.size()), used(nodes_.size());
  const auto is_it = [&](Index value) { return value < nodes_.size() && this->global(value) == global; };
  const auto use = [&](Index value) {
    if (is_it(value)) used[value] = true;
  };
  use(root_);
  for (Index i = 0; i < items_.size(); ++i) use(items_[i].value);
  for (Index value = 0; value < nodes_.size(); ++value) {
    if (kind(value) == Kind::persistent) use(identifier(value));
    if (kind(value) != Kind::call) continue;
    const Call one = call(value);
    for (const Index part : {one.arguments, one.state, one.list, one.dict}) use(part);
    if (!is_it(one.callable)) continue;
    found.push_back(value);
    called[one.callable] = true;
  }
  for (Index value = 0; value < nodes_.size(); ++value)
    if (is_it(value) && (used[value] || !called[value])) found.push_back(value);
  return found;
}

std::vector<Index> Pickle::items(Index value, size_t most) const {
  std::vector<Index> items;
  if (!is_container(value)) return items;
  items.reserve(std::min<size_t>(most, nodes_[value].c));
  for (Index at = nodes_[value].a; at != kNoValue && items.size() < most; at = items_[at].next)
    items.push_back(items_[at].value);
  return items;
}

Index Pickle::value_of(Index dict, std::string_view key, size_t most) const {
  Index found = kNoValue;
  if (kind(dict) != Kind::dict) return found;
  const std::vector<Index> all = items(dict, most);
  for (size_t i = 0; i + 1 < all.size(); i += 2)
    if (text(all[i]) == key) found = all[i + 1];
  return found;
}

std::string callable_text(const Pickle& pickle, Index callable) {
  constexpr int kMaxCalls = 8;
  std::string calls;
  for (int depth = 0; pickle.kind(callable) == Kind::call && depth < kMaxCalls; ++depth) {
    callable = pickle.call(callable).callable;
    calls += "()";
  }
  if (pickle.kind(callable) == Kind::persistent) {
    const std::vector<Index> identifier = pickle.items(pickle.identifier(callable), 2);
    if (identifier.size() == 2) callable = identifier[1];
  }
  return (pickle.kind(callable) == Kind::global ? std::string(pickle.global(callable)) : "?") + calls;
}

}  // namespace weightfs::pickle
