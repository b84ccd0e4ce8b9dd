// The status of the weightfs mounts of this machine, as reported by their servers. Unresponsive servers time out.
#pragma once

#include <cstdint>
#include <ctime>
#include <optional>
#include <string>
#include <vector>

#include "base/os/mounts.h"

namespace weightfs {

/// Extended attribute of the root of a mount: the pid of its server, in decimal.
inline constexpr const char* kPidXattr = "user.weightfs.pid";

/// A hidden directory in the root of a mount; its summary.json is what a MountReport says.
inline constexpr const char* kStatusDirectory = ".weightfs";

enum class MountCondition {
  serving,
  dead,          ///< its server process died
  unresponsive,  ///< its server is not responding
  inaccessible,  ///< another user's mount, which denies access
  covered,       ///< another file system is mounted over it, or over a directory above it
  unknown,       ///< the probe failed: no process or memory was available
};

const char* name_of(MountCondition state);

/// The status of a mount. Only the first two fields are always known.
struct MountReport {
  Mount mount;
  MountCondition state;
  std::string source;                     ///< as reported by the server, else as in /proc/mounts
  std::vector<std::string> sources = {};  ///< if there are several that are short
  std::optional<pid_t> server = {};
  std::optional<timespec> since = {};
  std::optional<uint64_t> served_bytes = {};
  std::optional<uint64_t> fetched_bytes = {};
  /// How many files were opened by tier (fs/fuse/passthrough.h), and why none can pass through; empty if they can.
  struct Tiers {
    uint64_t passthrough;
    uint64_t server;
    std::string reason;
  };
  std::optional<Tiers> tiers = {};
  /// Why requests do not come by io_uring; empty if they do.
  std::optional<std::string> no_rings = {};
  /// The last refresh, see FollowStatus.
  struct Refresh {
    uint64_t count;
    bool is_running;
    uint64_t changed;
    std::string mounted;
    std::string available;
    std::string error;  ///< empty if it succeeded
    uint64_t exit_status;
  };
  std::optional<Refresh> refresh = {};
};

/// Probes all mounts at once, for two seconds at most. Root probes each mount as its user, because FUSE denies access
/// even to root. To be called while the process has one thread.
std::vector<MountReport> probe_mounts(const std::vector<Mount>& mounts);

}  // namespace weightfs
