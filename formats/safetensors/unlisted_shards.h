// Shards that an index lacks, and those that a stale index does not know, by the names of the files beside it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "formats/format.h"

namespace weightfs::safetensors {

/// The files beside the index that are called shards of its model (`-00003-of-00003`), and that are not among `listed`,
/// which are sorted. If it lists none, those of its own name. Empty if the folder does not list its files. Fails with
/// errors that a retry can avoid.
Result<std::vector<std::string>> unlisted_shards(const std::vector<std::string>& listed, const Container& container);

/// Files that may be the model of an index.
struct OtherFiles {
  std::vector<std::string> names;  ///< also of shards that are missing
  bool are_named = false;          ///< they are shards of the index's own name; others need the tensors of the index
};

/// How the warning about a stale index begins.
inline constexpr std::string_view kStaleIndex = "the index is stale: ";

/// The files that may be the model instead, if none of the `listed` ones exists: an index is stale if the model was
/// converted without it. They are the only shards of the index's own name, else the only complete ones, else the only
/// whole file. Without names if there are none, and if the folder does not list its files. Fails with errors that a
/// retry can avoid.
Result<OtherFiles> files_of_stale_index(const std::vector<std::string>& listed, const Container& container);

}  // namespace weightfs::safetensors
