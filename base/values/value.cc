#include "base/values/value.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <numeric>

#include "base/budget.h"

namespace weightfs {

void Map::append(std::string key, Value value) {
  // A small map has no spare room: each of ten thousand models has a few.
  constexpr size_t kSmall = 8;
  if (entries_.size() < kSmall) entries_.reserve(entries_.size() + 1);
  entries_.emplace_back(std::move(key), std::move(value));
}

void Map::set(std::string key, Value value) {
  const auto found = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& e) { return e.first == key; });
  if (found == entries_.end()) return append(std::move(key), std::move(value));
  found->second = std::move(value);
}

void Map::keep_last_of_each_key() {
  const auto not_before = [](const Entry& a, const Entry& b) { return a.first >= b.first; };
  if (std::adjacent_find(entries_.begin(), entries_.end(), not_before) == entries_.end()) return;  // each once, sorted
  std::vector<size_t> order(entries_.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto key = [&](size_t i) -> const std::string& { return entries_[i].first; };
  // By key, then by place: a sort and not a hash table, which hostile keys could slow down.
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const int by_key = key(a).compare(key(b));
    return by_key != 0 ? by_key < 0 : a < b;
  });
  std::vector<bool> gone(entries_.size());
  for (size_t i = 0, first = 0; i < order.size(); ++i) {
    if (i == 0 || key(order[i]) != key(order[i - 1])) {
      first = order[i];
    } else {
      entries_[first].second = std::move(entries_[order[i]].second);
      gone[order[i]] = true;
    }
  }
  std::vector<Entry> kept;
  kept.reserve(entries_.size());
  for (size_t i = 0; i < entries_.size(); ++i)
    if (!gone[i]) kept.push_back(std::move(entries_[i]));
  entries_ = std::move(kept);
}

const Value* Map::find(std::string_view key) const {
  const auto found = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& e) { return e.first == key; });
  return found == entries_.end() ? nullptr : &found->second;
}

namespace {

// Adds the keys of a map to `all`, and its values to `open`.
void count_entries(const Map& map, Footprint& all, std::vector<const Value*>& open) {
  all.values += map.size();
  for (const auto& [key, value] : map) {
    all.bytes += key.size();
    open.push_back(&value);
  }
}

Footprint counted(std::vector<const Value*> open, Footprint all) {
  while (!open.empty()) {
    const Value& next = *open.back();
    open.pop_back();
    ++all.values;
    if (const auto* text = std::get_if<std::string>(&next))
      all.bytes += text->size();
    else if (const auto* list = std::get_if<List>(&next))
      for (const Value& item : *list) open.push_back(&item);
    else if (const auto* map = std::get_if<Map>(&next))
      count_entries(*map, all, open);
  }
  return all;
}

}  // namespace

Footprint footprint(const Value& value) { return counted({&value}, {}); }

Footprint footprint(const Map& map) {
  Footprint all{1, 0};
  std::vector<const Value*> open;
  count_entries(map, all, open);
  return counted(std::move(open), all);
}

Result<void> charge(const Footprint& copy, Budget& budget) {
  TRY_VOID(budget.charge(Cost::value, copy.values));
  auto texts = budget.charge(Cost::kept, copy.bytes);
  if (!texts) budget.release(Cost::value, copy.values);
  return texts;
}

void release(const Footprint& copy, Budget& budget) {
  budget.release(Cost::value, copy.values);
  budget.release(Cost::kept, copy.bytes);
}

double shortest_decimal(float number) {
  if (!std::isfinite(number)) return number;
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), number).ptr;
  double nearest = number;
  std::from_chars(text.data(), end, nearest);
  return nearest;
}

}  // namespace weightfs
