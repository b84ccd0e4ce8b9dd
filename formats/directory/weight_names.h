// The names that programs give to files with weights, and to files of a trainer. Nothing is read.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace weightfs::directory {

/// The forms of weights, in the order in which they are preferred (see weight_sets.h).
enum class Family { safetensors, pytorch, tensorflow, flax, keras, gguf, onnx, openvino, other };

/// The name of a file with weights, or of an index of shards, in its parts.
struct WeightName {
  enum class Role { whole, shard, index };

  Family family = Family::other;
  Role role = Role::whole;
  std::string base;      ///< without the suffix and the number of a shard: "model", "model.fp16", "consolidated.00"
  uint32_t number = 0;   ///< of a shard, from 1
  uint32_t count = 0;    ///< of the shards
  bool is_usual = true;  ///< false for a `.bin` whose name does not show whether it is a checkpoint
};

/// The path of shard `number` of the model that the shard at `path` belongs to; the number has the same width.
std::string path_of_shard(const std::string& path, uint32_t number);

/// Nothing for other files. A file of an archive (`.zip`, `.npz`) or of one array (`.npy`) is not one with weights.
std::optional<WeightName> parse_weight_name(std::string_view name);

/// Whether a file or directory of this name keeps the state of an optimizer or a trainer, if weights or
/// trainer_state.json are in the same directory. A directory's name ends with `/`.
bool is_training_state(std::string_view name);

/// What a GGUF is, by its name. A predictor has the layers for multi-token prediction of a model (MTP), and nothing
/// else.
enum class GgufUse { model, projector, adapter, importance_matrix, predictor };
GgufUse use_of_gguf(std::string_view name);

}  // namespace weightfs::directory
