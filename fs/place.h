// What a user names on the command line, as a tree: a container file, a directory that is one model, a directory of models,
// or several of these.
#pragma once

#include <string>
#include <vector>

#include "formats/format.h"
#include "fs/tree.h"

namespace weightfs {

/// How sources are opened.
struct Opening {
  const Format* forced = nullptr;  ///< read every container as this, whatever it looks like
  bool all_files = false;          ///< in a directory, show files that are no model too, as they are
};

/// One source: its tree is the mount itself. More: a directory for each, under its own file name (the second of one name gets
/// `~2`), entered later. A source that is a directory with exactly one `*.safetensors.index.json` is that model; any other
/// directory shows, under their own names, the models and directories in it, each read when it is entered.
/// Fails with not_found, io, or as reading the one container fails; of several, each must exist.
Result<TreePtr> open_sources(const std::vector<std::string>& paths, const Opening& opening);

}  // namespace weightfs
