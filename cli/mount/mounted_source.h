// A SOURCE of a command that is in a mount: the source of the mount is opened instead, as the command cannot read a
// model through its own tree.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace weightfs {

struct MountedSource {
  std::vector<std::string> sources;  ///< of the mount: absolute paths, or names of models
  std::string inside;                ///< the path of SOURCE in the mount; empty for its root
};

/// Nothing for anything but a directory in a weightfs mount; a file is read through the mount. Fails with unsupported
/// if another user has mounted it, whose server could name any source, and with io if the server is not responding. To
/// be called while the process has one thread.
Result<std::optional<MountedSource>> mounted_source(const std::string& source);

}  // namespace weightfs
