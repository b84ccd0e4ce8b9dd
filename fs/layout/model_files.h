// The directory views/ of a model: the whole model as files of other formats.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "fs/tree/tree.h"
#include "fs/views/checksums.h"
#include "fs/views/layout_parts.h"

namespace weightfs {

/// What the directory of a model shows, and how the files of views/ are made.
struct ModelFileOptions {
  static constexpr uint64_t kDefaultShardSize = 5'000'000'000;  ///< bytes, as in huggingface_hub

  uint64_t shard_size = kDefaultShardSize;  ///< bytes of tensors in a file of views/sharded/; 0: no such files
  views::ChecksumsPtr checksums = nullptr;  ///< of model.npz; null: not remembered
  LayoutParts layout = {};
};

/// The tree of views/: the files that can have every tensor of the model, and warnings.txt with the reasons for the
/// others. Made when it is entered, without reading a tensor. `source` names the model in reports. Fails
/// as reading the model does.
Later<TreePtr> model_files(Later<ModelPtr> model, std::shared_ptr<const std::string> source, Time modified,
                           const ModelFileOptions& options);

}  // namespace weightfs
