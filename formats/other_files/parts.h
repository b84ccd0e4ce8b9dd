// Files that were split by bytes, because a host limits their size: model.gguf.part1of2, model.gguf-split-a,
// model.gguf.001, model.part01.gguf.
#pragma once

#include "formats/format.h"

namespace weightfs::other_files {

/// Whether a container that begins as a model and ends early may be the first part of one: by its name; or by a number
/// in its name, if the file with the next number is beside it and is not a model.
bool may_be_first_part(const Container& container);

/// Whether a container of unknown content may be another part: by its name; or by a number in its name, if the file
/// with the number before is beside it.
bool may_be_other_part(const Container& container);

/// The error for the first part, which begins as the whole file does, and for another one.
Error first_part();
Error other_part();

}  // namespace weightfs::other_files
