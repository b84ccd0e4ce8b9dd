// The kernel's side: a FUSE session that answers each request by asking the Forest. No decision is made here.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "fs/forest.h"

namespace weightfs {

/// How a forest is mounted.
struct Mounting {
  std::string mountpoint;                ///< an existing directory, absolute
  std::string source;                    ///< what /proc/mounts names as the source
  std::vector<std::string> options;      ///< for the kernel and fusermount3 beside ro,nosuid,nodev,default_permissions
  std::function<void()> on_usable = {};  ///< called once a stat of the mount's root was answered
  std::function<void()> on_end = {};  ///< called when a signal ends the mount: what reads wait for should end as well
  bool drop_pages = false;  ///< what is read may turn out wrong: the kernel forgets it when a file is opened again
  std::function<void(const std::string&)> log = {};  ///< one line for each thing that went wrong, each said once
};

/// Mounts `forest` and serves it until it is unmounted or a SIGINT, SIGTERM or SIGHUP asks for the end; then it is
/// unmounted. Fails with io when it cannot be mounted.
Result<void> serve(Forest& forest, const Mounting& mounting);

}  // namespace weightfs
