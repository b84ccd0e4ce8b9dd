// Models that gguf-split cut into files: <prefix>-00001-of-00003.gguf and so on (llama.cpp, gguf-split and
// llama_split_path).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "formats/gguf/file.h"

namespace weightfs::gguf {

/// A file of a model of more shards is shown alone. Real ones have tens.
inline constexpr uint32_t kMostShards = 10'000;

/// The name of a shard, taken apart.
struct ShardName {
  std::string prefix;
  uint32_t number;  ///< from 1
  uint32_t count;   ///< 2 to 99999

  /// The name of another shard of the same model.
  std::string of(uint32_t other) const;
};

/// `name` as a shard's name: five digits each, 1 <= number <= count, count > 1. Nothing when it is none.
std::optional<ShardName> parse_shard_name(std::string_view name);

/// The shard that `file` is, when both its name and its split.count say that it is one of several.
std::optional<ShardName> shard_of(std::string_view name, const File& file);

/// Adds to the file's warnings where its split.* keys and its name disagree.
void check_shard(File& file, const ShardName& name, uint32_t number);

}  // namespace weightfs::gguf
