// What a service mounts, and where: a file of /etc/weightfs/mounts.d, in the form of systemd's EnvironmentFile=.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "base/result.h"

namespace weightfs {

struct Config {
  std::string name;                        ///< of the file, without .conf: the service's instance
  std::vector<std::string> sources;        ///< at least one; absolute paths, or names of models
  std::string mountpoint;                  ///< absolute, without `.`, `..` and a slash at the end
  std::string options;                     ///< as `weightfs mount -o` takes them; may be empty
  size_t options_line = 0;                 ///< of the last OPTIONS in the file; counted from 1
  bool automount = false;                  ///< mount it at the first access
  std::chrono::seconds automount_idle{0};  ///< unmount it when nobody used it for so long; 0: never
};

/// Reads one file, of at most 64 KiB. Fails with not_found or io when it cannot be read, with unsupported, naming the
/// file and the line, when it says something else than a Config.
Result<Config> read_config(const std::string& path);

/// The directory of the system's files: $WEIGHTFS_MOUNTS, else /etc/weightfs/mounts.d.
std::string config_directory();

}  // namespace weightfs
