// Which directories are shown by weightfs itself: a mount that fed on its own bytes would wait for itself, one that
// showed itself would never end.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weightfs {

/// One mount, as the kernel reports it.
struct Mount {
  uint64_t id;      ///< no other mount has it at that moment, in any mount namespace
  uint64_t parent;  ///< the id of the one that it is mounted on
  dev_t device;
  std::string point;  ///< absolute, without links; as it is seen from this process's root
  std::string type;   ///< "fuse.weightfs", "ext4"
  std::string source;
  std::optional<uid_t> user;   ///< of a FUSE mount: the mounting user; other users may have no access
  std::optional<gid_t> group;  ///< of a FUSE mount

  bool is_weightfs() const { return type == "fuse.weightfs"; }
};

/// A field of /proc/self/mountinfo, in which spaces are written \040.
std::string unescaped(const std::string& text);

/// A line of /proc/self/mountinfo (proc(5)); nothing when it is none.
std::optional<Mount> mount_in(std::string_view line);

/// A snapshot of the mounts of this mount namespace, as the kernel reports them. No file system is accessed: one may be
/// stuck, or served by this very process.
class Mounts {
 public:
  static Mounts now();

  /// Whether the absolute path is on a weightfs mount, judged by the names: links are not followed.
  bool is_on_weightfs(const std::string& path) const;

  /// Whether weightfs is mounted at that very path, which is absolute and without links; its server may be dead.
  bool is_weightfs_point(const std::string& path) const;

  /// Whether this is the device of a weightfs mount, which identifies the mount of any open file.
  bool is_weightfs(dev_t device) const;

  /// The mount of that id, or null.
  const Mount* find(uint64_t id) const;

  /// The mount at exactly this path, which covers earlier ones; nothing if there is none.
  std::optional<Mount> on(const std::string& path) const;

  /// Those of weightfs, the one mounted last at the end.
  std::vector<Mount> of_weightfs() const;

  const std::vector<Mount>& all() const& { return mounts_; }
  void all() && = delete;  // the pointers would dangle

 private:
  std::vector<Mount> mounts_;  // in the order of mounting
};

/// The id of the mount that an open file is on, from the kernel's description of a descriptor of this process (`self`)
/// or another one: /proc/PID/fdinfo/N. No file system is accessed.
std::optional<uint64_t> mount_id_of(const std::string& process, const std::string& descriptor);

/// Whether `path` is `directory` or below it; both absolute, without `.` and `..`.
bool is_at_or_below(const std::string& path, const std::string& directory);

}  // namespace weightfs
