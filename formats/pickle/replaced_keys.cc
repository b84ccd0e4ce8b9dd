#include "formats/pickle/replaced_keys.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>
#include <tuple>

namespace weightfs::pickle {
namespace {

// The number that a key is equal to; nothing if there is none of 64 bits.
std::optional<int64_t> number_of(const Pickle& pickle, Index key) {
  if (pickle.kind(key) != Kind::real) return pickle.integer(key);
  const double real = pickle.real(key);
  if (real != std::trunc(real) || std::fabs(real) >= 0x1p63) return std::nullopt;
  return static_cast<int64_t>(real);
}

}  // namespace

bool ReplacedKeys::is_replaced(size_t place) const { return std::ranges::binary_search(replaced, place); }

size_t ReplacedKeys::key_of(size_t place) const {
  const auto found = std::ranges::lower_bound(spelled, std::pair(place, size_t{0}));
  return found != spelled.end() && found->first == place ? found->second : place;
}

Result<ReplacedKeys> replaced_keys(const Pickle& pickle, const std::vector<Index>& items, Charges& charges) {
  std::vector<std::tuple<Kind, std::string_view, int64_t, size_t>> keys;
  uint64_t compared = 0;
  for (size_t i = 0; i + 1 < items.size(); i += 2) {
    const std::string_view text = pickle.text(items[i]);
    const auto number = number_of(pickle, items[i]);
    if (!number && (!pickle.is_text(items[i]) || text.size() != pickle.length(items[i]))) continue;
    if (number)
      keys.emplace_back(Kind::integer, std::string_view(), *number, i);
    else
      keys.emplace_back(pickle.kind(items[i]), text, 0, i);
    compared += sizeof(keys.back()) + text.size();
  }
  TRY_VOID(charges.charge(Cost::input, compared));
  std::sort(keys.begin(), keys.end());
  ReplacedKeys found;
  for (size_t i = 1, first = 0; i < keys.size(); ++i) {
    const auto& [kind, text, number, place] = keys[i - 1];
    const auto& [next_kind, next_text, next_number, next_place] = keys[i];
    if (std::tie(kind, text, number) != std::tie(next_kind, next_text, next_number)) {
      first = i;
      continue;
    }
    found.replaced.push_back(place);
    if (first + 1 < i) found.spelled.pop_back();
    found.spelled.emplace_back(next_place, std::get<3>(keys[first]));
  }
  std::sort(found.replaced.begin(), found.replaced.end());
  std::sort(found.spelled.begin(), found.spelled.end());
  return found;
}

}  // namespace weightfs::pickle
