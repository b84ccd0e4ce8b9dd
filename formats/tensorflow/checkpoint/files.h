// The files of a checkpoint beside its table.
#pragma once

#include <functional>
#include <string>

#include "base/result.h"
#include "base/source.h"

namespace weightfs::tensorflow {

/// Finds the files beside a table.
struct CheckpointFiles {
  std::string prefix;  ///< of their names: "model.ckpt-12", "variables/variables"
  std::function<Result<SourcePtr>(const std::string& path)> open;  ///< fails as Folder::open() does
};

}  // namespace weightfs::tensorflow
