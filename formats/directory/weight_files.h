// Which files of a model hold its weights, and how large they are. A model has the same size whether its directory or
// its file is named.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "formats/model.h"

namespace weightfs {

/// The paths of the parts that the tensors are in, and of shards without tensors, in the order of the parts. For a
/// model that was chosen in a directory they were found when it was read; for any other one find_weight_files() finds
/// them.
std::vector<std::string> weight_files_of(const Model& model);

/// Finds these parts of a model that has only the parts that its format read, not the other files of the directory.
/// Empty for an archive whose members are decoded.
std::vector<std::string> find_weight_files(const Model& model);

/// The size of the model in bytes: of the archive, else of the files of weight_files_of(). Nothing if it is not known.
std::optional<uint64_t> weight_file_bytes(const Model& model);

}  // namespace weightfs
