// The config of a service: a file of /etc/weightfs/mounts.d or /etc/weightfs/serve.d, in the format of EnvironmentFile=
// of systemd.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "base/result.h"

namespace weightfs::service {

/// What a service does with its sources.
enum class ConfigKind {
  mount,
  http  ///< there is no MOUNTPOINT and no AUTOMOUNT
};

struct Config {
  std::string name;                  ///< name of the file without .conf: the instance of the service
  std::vector<std::string> sources;  ///< at least one of a mount; absolute paths, or model names
  std::string mountpoint;            ///< of a mount: absolute, without `.`, `..` and a trailing slash
  std::string options;      ///< in the syntax of `weightfs mount -o`, or those of `weightfs serve`; may be empty
  size_t options_line = 0;  ///< line of the last OPTIONS, counted from 1
  bool automount = false;   ///< mount it at the first access
  std::chrono::seconds automount_idle{0};  ///< unmount after this time without use; 0: never
};

/// Reads one file, of at most 64 KiB. Fails with not_found or io if it cannot be read, with unsupported if it is
/// invalid; the message has the file and the line.
Result<Config> read_config(const std::string& path, ConfigKind kind = ConfigKind::mount);

/// The directory of the config files: $WEIGHTFS_MOUNTS, else /etc/weightfs/mounts.d.
std::string config_directory();

}  // namespace weightfs::service
