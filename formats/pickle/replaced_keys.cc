#include "formats/pickle/replaced_keys.h"

#include <algorithm>
#include <string_view>
#include <tuple>

namespace weightfs::pickle {

Result<std::vector<size_t>> replaced_keys(const Pickle& pickle, const std::vector<Index>& items, Charges& charges) {
  std::vector<std::tuple<Kind, std::string_view, int64_t, size_t>> keys;
  uint64_t compared = 0;
  for (size_t i = 0; i + 1 < items.size(); i += 2) {
    const std::string_view text = pickle.text(items[i]);
    const auto number = pickle.integer(items[i]);
    if (!number && (!pickle.is_text(items[i]) || text.size() != pickle.length(items[i]))) continue;
    keys.emplace_back(pickle.kind(items[i]), text, number.value_or(0), i);
    compared += sizeof(keys.back()) + text.size();
  }
  TRY_VOID(charges.charge(Cost::input, compared));
  std::sort(keys.begin(), keys.end());
  std::vector<size_t> replaced;
  for (size_t i = 1; i < keys.size(); ++i) {
    const auto& [kind, text, number, place] = keys[i - 1];
    if (std::tuple(kind, text, number) == std::tuple(std::get<0>(keys[i]), std::get<1>(keys[i]), std::get<2>(keys[i])))
      replaced.push_back(place);
  }
  std::sort(replaced.begin(), replaced.end());
  return replaced;
}

}  // namespace weightfs::pickle
