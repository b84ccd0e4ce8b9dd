// A model as a file of another format: a header made in memory, then the bytes of the tensors where they are stored.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/source.h"
#include "formats/common/warnings.h"
#include "formats/model.h"
#include "fs/views/left_out_keys.h"

namespace weightfs::views {

/// Which tensors a file has, and how.
struct Selection {
  std::optional<std::vector<size_t>> tensors = {};  ///< indices into Model::tensors, ascending; nothing for all
  bool float32 = false;                             ///< every number as float32, dequantised if necessary
};

/// A file of a model in another format. It may be read by any number of threads; reads fail as reading the container
/// fails.
struct ModelFile {
  std::string path;  ///< below views/: "model.safetensors"
  SourcePtr source;  ///< its bytes; made without reading any tensor
  /// A line for each tensor that the format cannot hold, with the reason. Of several files the first one has those of
  /// all.
  Warnings left_out;
  LeftOutKeys left_out_keys = {};  ///< the same of the metadata
};

// These functions fail with unsupported if the format can hold none of the tensors, or not all together, and as
// Budget::charge does.

/// model.safetensors, or model.float32.safetensors. After it, if the tensors have more than `shard_size` bytes and that
/// is not 0, the same tensors again as sharded/model-0000N-of-0000M.safetensors, and their index.
Result<std::vector<ModelFile>> safetensors_files(const ModelPtr& model, const Selection& selection,
                                                 uint64_t shard_size);

/// model.gguf, version 3.
Result<ModelFile> gguf_file(const ModelPtr& model, const Selection& selection);

/// model.npz: the .npy file of each tensor in a stored zip. Its checksums are computed by the first read that needs
/// one.
Result<ModelFile> npz_file(const ModelPtr& model, const Selection& selection);

}  // namespace weightfs::views
