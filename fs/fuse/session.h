// The kernel's side: a FUSE session that answers each request by asking the Forest. No decision is made here.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "fs/forest.h"
#include "fs/fuse/statistics.h"

namespace weightfs {

/// Who owns what is shown, and which of the permissions to read (0444, of directories 0555) are taken away.
struct Ownership {
  uid_t user = ::getuid();
  gid_t group = ::getgid();
  mode_t mask = 0;
};

/// What is done beside serving, in a thread of its own, one thing after the other.
struct Duties {
  /// Once a stat of the mount's root was answered; told the mount's id, or 0 where something covers it already.
  std::function<void(uint64_t mount)> on_usable = {};
  std::function<void()> on_end = {};  ///< a signal ends the mount: what reads wait for should end as well
  /// Takes away a mount that is there when serving has ended; without it the path is walked, and may be waited for, or
  /// nothing is done for Mounting::device.
  std::function<void()> on_unmount = {};
  /// Requests that cannot be answered have kept the mount from ending for longer than kLongestEnd: detaches it, and
  /// ends the process as it is.
  std::function<void()> on_stuck = {};
  /// What a signal means; one that is here does not end the mount, whatever it meant. It has to be blocked in every
  /// thread that was started before.
  std::map<int, std::function<void()>> on_signals = {};
  std::function<void()> on_tick = {};  ///< again and again, where tick_every is not 0
  std::chrono::milliseconds tick_every{0};
};

/// How a forest is mounted.
struct Mounting {
  std::string mountpoint;            ///< an existing directory, absolute
  std::string source;                ///< what /proc/mounts names as the source
  std::vector<std::string> options;  ///< for the kernel and fusermount3 beside ro,nosuid,nodev,default_permissions
  /// An open /dev/fuse that is mounted there already: then the source and the options are those of that mount. In the
  /// end it is unmounted only by Duties::on_unmount.
  std::optional<int> device = {};
  Ownership ownership = {};
  bool drop_pages = false;  ///< what is read may turn out wrong: the kernel forgets it when a file is opened again
  std::function<void(const std::string&)> log = {};  ///< one line for each thing that went wrong, each said once
  std::function<void(Ino)> on_open = {};             ///< told of each file that is opened, in any thread
  Duties duties = {};
};

/// How long a mount that is told to end waits for requests that are being answered.
inline constexpr std::chrono::seconds kLongestEnd{5};

/// Makes the kernel read further ahead on the mount of that device, where it lets us: root, that is.
void raise_read_ahead(dev_t device);

/// Mounts at the mount point, and returns the descriptor for Mounting::device, which the caller closes. Nothing is
/// served yet. Fails with io.
Result<int> open_mount(const Mounting& mounting);

/// Mounts `forest` and serves it until it is unmounted or a SIGINT, SIGTERM or SIGHUP asks for the end; then it is
/// unmounted. `statistics` counts what is asked. Fails with io when it cannot be mounted.
Result<void> serve(Forest& forest, Statistics& statistics, const Mounting& mounting);

}  // namespace weightfs
