// The files that hold all bytes of a forest: those of every model's files/, from which the rest of its tree is built.
#pragma once

#include <functional>
#include <string>

#include "base/result.h"
#include "fs/tree/forest.h"

namespace weightfs {

struct FileVisitor {
  /// Called for each file with its path; the walk ends when it returns false.
  std::function<bool(Ino file, const std::string& path)> on_file;
  /// Called for each directory that cannot be entered.
  std::function<void(const std::string& path, const Error& error)> on_error;
  /// Called for each model, before its files.
  std::function<void(const std::string& path, const ModelPtr& model)> on_model;
};

/// Visits the files below a directory, in the order of their directories. Enters the models below it. `path` is the
/// path of the directory, empty for the root. Returns false if the visitor ended it.
bool walk_files(Forest& forest, Ino directory, const std::string& path, const FileVisitor& visitor);

}  // namespace weightfs
