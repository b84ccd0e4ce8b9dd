// The files that an export writes.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "formats/common/warnings.h"
#include "formats/model.h"
#include "fs/tree/forest.h"
#include "fs/views/left_out_keys.h"
#include "fs/views/model_file.h"

namespace weightfs::exporting {

/// The format of the output.
enum class Form { safetensors, gguf, npz, npy, dir, tar };

/// As users spell it.
std::string_view name_of(Form form);

/// All of them, for messages: "safetensors (.safetensors), …, npy (a directory), …".
std::string list_of_forms();

std::vector<std::string> form_names();

/// Nothing for an unknown name.
std::optional<Form> form_named(std::string_view name);

/// The format that the suffix of a file name stands for; nothing if there is none.
std::optional<Form> form_of_suffix(std::string_view path);

/// The tensors of an export.
struct Request {
  std::string path = {};  ///< of the model in its forest: empty, or with a `/` at its end
  Form form;
  std::vector<size_t> tensors;                        ///< indices, ascending
  views::FileTypes types = views::FileTypes::stored;  ///< those of npy and npz are the types of npy/
  uint64_t shard_size = 0;                            ///< 0: one file
  views::OverflowsPtr overflows = {};                 ///< of converted numbers; may be null
};

struct ExportedFile {
  std::string path;  ///< in the output
  uint64_t size = 0;
  Time modified = 0;
  std::function<Result<SourcePtr>()> open;
};

struct ExportedFiles {
  std::vector<ExportedFile> files;
  Warnings left_out;                      ///< a line for each tensor that the format cannot hold
  views::LeftOutKeys left_out_keys = {};  ///< the metadata that it cannot hold
  std::string other_types = {};           ///< a sentence about tensors of unexpected types (npy_types.h); may be empty
};

/// The files for the model of a forest. Reads no tensor. Fails as rendering the texts of the model fails.
Result<ExportedFiles> files_of(Forest& forest, const ModelPtr& model, const Request& request);

}  // namespace weightfs::exporting
