// The sets of weights in a directory, by the names of its files: a file, or shards with or without an index. And which
// of them is the model, if the directory has one model.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "formats/directory/weight_names.h"

namespace weightfs::directory {

/// Shards that are missing are named up to this number of all shards. Real models have hundreds.
inline constexpr uint32_t kMaxShards = 10'000;

/// Weights that are opened together.
struct WeightSet {
  WeightName name;                 ///< of the index, the only file or the first shard
  std::string path;                ///< that of the same file: what opens the set, and its name in messages
  std::vector<std::string> files;  ///< with the weights, by path: the only file, or the shards that the directory has
  uint64_t bytes = 0;              ///< of `files`

  /// Whether no shard is missing, by their numbers.
  bool is_complete() const { return name.role != WeightName::Role::shard || files.size() == name.count; }
};

/// The sizes of the files of one directory by their names.
using FileSizes = std::map<std::string, uint64_t, std::less<>>;

/// The sets in a directory, sorted by path. `prefix` is put in front of the names. With `without_training_state`, files
/// of a trainer are in none.
enum class TrainingState { included, excluded };
std::vector<WeightSet> find_weight_sets(const FileSizes& files, const std::string& prefix, TrainingState training);

/// What is done if several sets are equally good: nothing is chosen, or the first by name.
enum class Ambiguity { refused, resolved };

/// The set that is the model of a directory whose other files say that it has one (config.json): the first in the order
/// that transformers and diffusers prefer. `below_onnx` are the sets of the directory `onnx`. Null if there is none.
const WeightSet* choose_weights(const std::vector<WeightSet>& sets, const std::vector<WeightSet>& below_onnx,
                                Ambiguity ambiguity);

/// Whether the set is an adapter of PEFT or of MLX, by its name.
bool is_adapter(const WeightSet& set);

}  // namespace weightfs::directory
