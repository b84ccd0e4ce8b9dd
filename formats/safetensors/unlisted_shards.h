// Shards that an index lacks, by the names of the files beside it.
#pragma once

#include <string>
#include <vector>

#include "formats/format.h"

namespace weightfs::safetensors {

/// The files beside the index that are called shards of its model (`-00003-of-00003`), and that are not among `listed`,
/// which are sorted. If it lists none, those of its own name. Empty if the folder does not list its files. Fails with
/// errors that a retry can avoid.
Result<std::vector<std::string>> unlisted_shards(const std::vector<std::string>& listed, const Container& container);

}  // namespace weightfs::safetensors
