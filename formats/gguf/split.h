// Models that gguf-split split into files: <prefix>-00001-of-00003.gguf and so on (llama.cpp, gguf-split and
// llama_split_path).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "formats/gguf/file.h"

namespace weightfs::gguf {

/// The maximum number of shards; a file of a model with more is shown alone. Real models have tens.
inline constexpr uint32_t kMaxShards = 10'000;

/// The parsed name of a shard.
struct ShardName {
  std::string prefix;
  uint32_t number;  ///< from 1
  uint32_t count;   ///< 2 to 99999

  /// The name of another shard of the same model.
  std::string of(uint32_t other) const;
};

/// Parses a shard's name: five digits each, 1 <= number <= count, count > 1. Nothing for other names.
std::optional<ShardName> parse_shard_name(std::string_view name);

/// The shard name of `file` if both its name and its split.count mark it as one of several.
std::optional<ShardName> shard_of(std::string_view name, const File& file);

/// Adds a warning to the file where its split.* keys and its name disagree. The model is incomplete then, as ggml
/// refuses it, but not if a key is missing.
void check_shard(File& file, const ShardName& name, uint32_t number);

/// Compares the number of tensors that all shards have with split.tensors.count, which is `stated`, in the same way.
void check_count(std::optional<uint64_t> stated, uint64_t found, Warnings& warnings);

/// Counts the tensors that shards have which cannot be read: a warning names those.
void explain_count(std::optional<uint64_t> stated, uint64_t found, Warnings& warnings);

/// A file that is one of several by its split.count, but not by its name, is incomplete unless it has all tensors.
void check_alone(File& file);

}  // namespace weightfs::gguf
