// The texts that many tensors of a model share: their types in the container's spelling, and their scopes.
#pragma once

#include <list>
#include <set>
#include <string>
#include <string_view>

#include "base/budget.h"
#include "base/result.h"

namespace weightfs {

/// Keeps each text once in a Model::string_pool, which outlives this object.
class StringPool {
 public:
  explicit StringPool(std::list<std::string>& texts) : texts_(texts) {}

  /// The text as the pool has it.
  std::string_view add(std::string_view text) {
    const auto known = known_.find(text);
    if (known != known_.end()) return *known;
    return *known_.insert(texts_.emplace_back(text)).first;
  }

  /// The text as the pool has it; an empty one is not stored. Charges `budget` for a new one, and fails as that does.
  Result<std::string_view> add(std::string_view text, Budget& budget) {
    if (text.empty()) return std::string_view();
    if (!known_.contains(text)) {
      TRY_VOID(budget.charge(Cost::value));
      TRY_VOID(budget.charge(Cost::kept, text.size()));
    }
    return add(text);
  }

 private:
  std::list<std::string>& texts_;
  std::set<std::string_view> known_;
};

}  // namespace weightfs
