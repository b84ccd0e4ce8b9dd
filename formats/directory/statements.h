// What a model states of its files and tensors besides listing them, when it becomes a part of another model.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "formats/model.h"

namespace weightfs::directory {

/// Puts `directory`, which ends with '/' unless it is empty, in front of the paths of the parts, and in what the model
/// states of them.
void move_below(Model& model, std::string_view directory);

/// Moves what `read` states of its tensors and files to `model`, where its tensors begin at `first`.
void move_statements(Model& read, Model& model, size_t first);

/// Moves the checksums of the members of the archive at `path` to `model`, which has the archive as a part. Fails if
/// the budget does not suffice for their paths.
Result<void> move_checksums(std::vector<Part> members, std::string_view path, Model& model, Budget& budget);

}  // namespace weightfs::directory
