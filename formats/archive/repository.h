// An archive or artifact whose files are the directory of one model: a downloaded repository in a zip, the layers of an
// artifact.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "formats/archive/archive.h"

namespace weightfs::archive {

/// Where the directory of a model is looked for.
enum class Repository {
  described,  ///< in an archive: only where config.json or the like is
  published   ///< in an artifact: wherever its only model is
};

/// Reads a file as a model; `path` is its path in the archive.
using ReadFile = std::function<Result<Model>(const Container& file, const std::string& path)>;

/// The model that the files are, with the other files as its parts, in the order of its own; nothing if they are none,
/// or several. Decoding is charged to the budget. Container::file is the path of the file to read instead. Fails as
/// reading does.
Result<std::optional<Model>> find_model_in(const Archive& files, Repository repository, const Container& container,
                                           const ReadFile& read);

}  // namespace weightfs::archive
