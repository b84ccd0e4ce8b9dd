// Lists what is below a directory on disk that is one model, or may be one.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "formats/format.h"
#include "sources/disk/watched.h"
#include "sources/disk_folder.h"

namespace weightfs {

/// The files of a directory and of those below it.
struct WalkedFiles {
  std::vector<Part> parts;            ///< sorted by path; links to files as files, if the rules permit to follow them
  std::vector<std::string> warnings;  ///< about files that are not listed
  std::vector<std::string> missing;   ///< links to blobs in a cache of huggingface_hub that do not exist
  std::vector<WatchedDirectory> directories;
  std::string version;  ///< equal if no file was added, removed or replaced
};

/// Lists them. A directory that several links lead to is entered once; `excluded_path` (see OpenOptions) and weightfs
/// mounts are left out. Beyond 100,000 files or 2,000 directories the others are left out, with a warning.
WalkedFiles walk_files(const Location& top, const std::string& excluded_path);

/// A folder of these files, also of those below it.
std::shared_ptr<const Folder> folder_of(const WalkedFiles& walked);

/// Whether a directory below has a file with a usual name of weights, at most three directories deep; also if there are
/// more than 1,000 names, because a model has fewer beside it.
bool has_models_below(const Location& top, const std::string& excluded_path);

}  // namespace weightfs
