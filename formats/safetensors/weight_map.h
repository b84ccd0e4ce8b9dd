// The index of a model in several files: which shard has which tensor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/budget.h"
#include "base/values/value.h"
#include "formats/common/warnings.h"

namespace weightfs::safetensors {

/// A hundred thousand tensors take about 10 MB of it.
inline constexpr uint64_t kMaxIndexSize = 100'000'000;

/// A shard of a model.
struct Shard {
  std::string_view name;
  size_t weights = 0;     ///< how many tensors the weight map puts into it
  bool is_needed = true;  ///< else it is not read
  bool was_read = false;
  Result<SourcePtr> bytes = SourcePtr();
  const Shard* same = nullptr;  ///< an earlier shard with the same file under another name

  const Shard& file() const { return same == nullptr ? *this : *same; }
};

/// A line of the weight map.
struct Weight {
  static constexpr size_t kNowhere = SIZE_MAX;

  std::string tensor;
  Shard* shard;                 ///< in Index::shards
  bool found = false;           ///< there
  size_t elsewhere = kNowhere;  ///< the first tensor of that name in another shard: its place in the model
};

/// The content of an index.
struct Index {
  std::map<std::string, Shard> shards;  ///< by name
  std::vector<Weight> weights;          ///< by tensor
  std::optional<Value> metadata;
  Warnings warnings;
  bool is_stale = false;  ///< its shards are others than it lists, so it has no weights

  /// The line of a tensor; null if there is none.
  Weight* find(std::string_view tensor);

  /// Leaves only the shards of these tensors as needed. False if others may be needed to find them: the weight map has
  /// not all of them, or has the name of one as the beginning of another one's path (semantics 3.3).
  bool choose_shards(const std::vector<std::string>& tensors);

  /// Takes these files instead of those that it lists. Returns the tensors that it lists, sorted.
  std::vector<std::string> replace_shards(const std::vector<std::string>& names);
};

/// Reads an index. Fails with unsupported for JSON without a weight map and beyond the limits, with corrupt if it is
/// damaged, and as the budget does.
Result<Index> read_index(const Source& bytes, Budget& budget);

}  // namespace weightfs::safetensors
