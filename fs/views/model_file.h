// A model as a file of another format: a header made in memory, then the bytes of the tensors where they are stored.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/source.h"
#include "formats/common/warnings.h"
#include "formats/mapping/mapping.h"
#include "formats/model.h"
#include "fs/views/converted.h"
#include "fs/views/left_out_keys.h"

namespace weightfs::views {

/// The types of the tensors in a file.
enum class FileTypes {
  stored,             ///< as stored; a file lacks tensors whose type its format lacks
  stored_or_float32,  ///< as stored if the format has the type, otherwise as float32
  float32,            ///< every number as float32
  float16,
  bfloat16,
};

/// Which tensors a file has, and how. npz has the types of npy/ in place of those that are stored.
struct Selection {
  std::optional<std::vector<size_t>> tensors = {};  ///< indices into Model::tensors, ascending; nothing for all
  FileTypes types = FileTypes::stored;
  OverflowsPtr overflows = {};  ///< of converted numbers, counted while the file is read; may be null
};

/// A file of a model in another format. It may be read by any number of threads; reads fail as reading the container
/// fails.
struct ModelFile {
  std::string path;  ///< below views/: "model.safetensors"
  SourcePtr source;  ///< its bytes; made without reading any tensor
  /// A line for each tensor that the format cannot hold, with the reason. The first of several files has the lines of
  /// all.
  Warnings left_out;
  LeftOutKeys left_out_keys = {};  ///< the same of the metadata
};

// These functions fail with unsupported if the format can hold none of the tensors, or not all together, and as
// Budget::charge does.

/// model.safetensors. After it, if the tensors have more than `shard_size` bytes and that
/// is not 0, the same tensors again as sharded/model-0000N-of-0000M.safetensors, and their index.
Result<std::vector<ModelFile>> safetensors_files(const ModelPtr& model, const Selection& selection,
                                                 uint64_t shard_size);

/// model.gguf, version 3. After it, if the tensors have more than `shard_size` bytes and that is not 0, the same
/// tensors again as model-0000N-of-0000M.gguf, the split form of llama.cpp.
Result<std::vector<ModelFile>> gguf_files(const ModelPtr& model, const Selection& selection, uint64_t shard_size);

/// model.gguf alone.
Result<ModelFile> gguf_file(const ModelPtr& model, const Selection& selection);

/// model.gguf of a repository of the Hub (mapping::is_of_transformers), which llama.cpp loads, in each of these types.
/// `name` is that of the repository. Fails as mapping::as_gguf() does.
Result<std::vector<ModelFile>> hub_gguf_files(const ModelPtr& model, const std::string& name,
                                              std::span<const mapping::GgufType> types);

/// model.npz: the .npy file of each tensor in a stored zip. Its checksums are computed by the first read that needs
/// one.
Result<ModelFile> npz_file(const ModelPtr& model, const Selection& selection);

}  // namespace weightfs::views
