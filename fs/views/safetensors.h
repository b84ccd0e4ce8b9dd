// Internals of the safetensors files of a model, for tests.
#pragma once

#include "fs/views/model_file.h"

namespace weightfs::views {

/// The limits of the reference.
struct SafetensorsLimits {
  uint64_t max_header = 100'000'000;  ///< bytes, without the eight of its length (tensor.rs, MAX_HEADER_SIZE)
  size_t max_dimensions = 64;         ///< of a tensor: PyTorch and NumPy have no more
  size_t max_shards = 99'999;         ///< their names have five digits
};

/// safetensors_files() with other limits.
Result<std::vector<ModelFile>> safetensors_files(const ModelPtr& model, const Selection& selection, uint64_t shard_size,
                                                 const SafetensorsLimits& limits);

}  // namespace weightfs::views
