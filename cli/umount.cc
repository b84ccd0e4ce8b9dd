// weightfs umount: unmounts, and waits for the server processes.
#include <fmt/core.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>
#include <thread>

#include "base/text.h"
#include "cli/mount/mount_report.h"
#include "cli/mount/mount_users.h"
#include "cli/mount/unmount.h"
#include "cli/verbs.h"
#include "report/text/words.h"

namespace weightfs {
namespace {

struct UmountArguments {
  std::vector<std::string> paths;
  bool all = false;
  bool lazy = false;
};

// A mount to unmount, and its name in messages.
struct Target {
  std::string name;
  Mount mount;
};

// The latest mounts first, because one may be mounted below another.
std::vector<Target> mounts_of_user() {
  std::vector<Target> targets;
  for (const Mount& mount : Mounts::now().of_weightfs())
    if (::geteuid() == 0 || mount.user == ::getuid()) targets.push_back({mount.point, mount});
  std::reverse(targets.begin(), targets.end());
  return targets;
}

std::string describe_users(const std::vector<MountUser>& users) {
  constexpr size_t kMaxListed = 8;
  std::string out;
  for (size_t i = 0; i < std::min(users.size(), kMaxListed); ++i)
    out += fmt::format("{}{} (pid {}, {})", i == 0 ? " in use by " : ", ", printable(users[i].name), users[i].process,
                       printable(users[i].use));
  return users.size() > kMaxListed ? fmt::format("{} and {} more", out, users.size() - kMaxListed) : out;
}

// Why the mount is busy, as far as this user can see.
std::string busy_message(const Target& target) {
  const Mounts now = Mounts::now();
  for (const Mount& each : now.all())
    if (each.parent == target.mount.id)
      return fmt::format("busy: {} is mounted below it, at {}", printable(each.type), printable(each.point));
  const MountUsers users = find_mount_users(target.mount);
  const std::string described = describe_users(users.found);
  const char* cut = users.is_complete ? "" : " (search incomplete: too many open files)";
  const char* unseen = ::geteuid() == 0 ? "" : " (processes of other users not shown)";
  const auto word = command_word(target.name);
  const std::string lazy = word ? fmt::format("`weightfs umount --lazy {}`", *word) : "--lazy";
  return fmt::format("busy:{}{}{}; {} detaches it", described.empty() ? " in use" : described, cut, unseen, lazy);
}

// The server processes of mounts, as pidfds.
class Servers {
 public:
  explicit Servers(const std::vector<Target>& targets) {
    std::vector<Mount> mounts;
    for (const Target& target : targets) mounts.push_back(target.mount);
    for (const MountReport& each : probe_mounts(mounts))
      servers_.push_back(each.server ? static_cast<int>(::syscall(SYS_pidfd_open, *each.server, 0)) : -1);
  }
  ~Servers() {
    for (const int server : servers_)
      if (server >= 0) ::close(server);
  }
  Servers(const Servers&) = delete;
  Servers& operator=(const Servers&) = delete;

  /// Does not wait for the server of this target.
  void skip(size_t number) {
    if (number < servers_.size() && servers_[number] >= 0) ::close(std::exchange(servers_[number], -1));
  }

  /// Waits, because a server removes the mount point that it created when it exits.
  void wait() const {
    constexpr std::chrono::seconds kServerExitTimeout{10};
    const auto end = std::chrono::steady_clock::now() + kServerExitTimeout;
    for (const int server : servers_) {
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
      pollfd ended{server, POLLIN, 0};
      if (server >= 0 && left.count() > 0) ::poll(&ended, 1, static_cast<int>(left.count()));
    }
  }

 private:
  std::vector<int> servers_;
};

// Unmounts one mount after another. If a file system is unresponsive for one mount below it, the other mounts below it
// fail at once.
class Unmounter {
 public:
  explicit Unmounter(Detach detach) : detach_(detach) {}

  UnmountResult run(const Mount& mount) {
    if (const auto found = unresponsive_.find(mount.parent); found != unresponsive_.end()) return found->second;
    UnmountResult unmounted = unmount_retrying(mount);
    if (unmounted.status == UnmountResult::unresponsive) unresponsive_.emplace(mount.parent, unmounted);
    return unmounted;
  }

 private:
  // Retries for a short time: commands such as `weightfs mounts` keep a mount busy only briefly.
  UnmountResult unmount_retrying(const Mount& mount) const {
    constexpr std::chrono::milliseconds kBusyRetryTime{500};
    const auto limit = std::chrono::steady_clock::now() + kBusyRetryTime;
    for (;;) {
      UnmountResult unmounted = unmount(mount, detach_, kUnmountTimeout);
      if (unmounted.status != UnmountResult::busy || std::chrono::steady_clock::now() >= limit) return unmounted;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  }

  Detach detach_;
  std::map<uint64_t, UnmountResult> unresponsive_;  // by the id of the parent mount
};

// With --all, each unmounted mount is printed as well.
enum class Report { failures, all };

Exit unmount_all(const std::vector<Target>& targets, Detach detach, Report report) {
  // A detached mount that is in use is still served, so there is nothing to wait for.
  Servers servers(detach == Detach::now ? std::vector<Target>() : targets);
  Unmounter unmounter(detach);
  Exit status = Exit::ok;
  for (size_t i = 0; i < targets.size(); ++i) {
    const UnmountResult unmounted = unmounter.run(targets[i].mount);
    if (unmounted.status == UnmountResult::done) {
      if (report == Report::all) std::printf("%s: unmounted\n", printable(targets[i].name).c_str());
      continue;
    }
    servers.skip(i);
    report_error(
        {Code::io, fmt::format("{}: {}", printable(targets[i].name),
                               unmounted.status == UnmountResult::busy ? busy_message(targets[i]) : unmounted.why)});
    status = Exit::mount;
  }
  servers.wait();
  return status;
}

Exit umount(const UmountArguments& arguments) {
  if (arguments.all != arguments.paths.empty()) {
    report_error({Code::io, fmt::format("umount: {} (see weightfs umount --help)",
                                        arguments.all ? "MOUNTPOINT and --all exclude each other"
                                                      : "missing MOUNTPOINT or --all")});
    return Exit::usage;
  }
  std::vector<Target> targets;
  Exit status = Exit::ok;
  if (arguments.all) targets = mounts_of_user();
  for (const std::string& path : arguments.paths) {
    const auto mount = weightfs_at(path, kUnmountTimeout);
    if (mount) {
      targets.push_back({path, *mount});
    } else {
      report_error(mount.error());
      status = Exit::mount;
    }
  }
  // The working directory may be in the mount.
  (void)!::chdir("/");
  const Exit unmounted = unmount_all(targets, arguments.lazy ? Detach::now : Detach::if_unused,
                                     arguments.all ? Report::all : Report::failures);
  return status == Exit::ok ? unmounted : status;
}

}  // namespace

Command umount_command() {
  const auto given = std::make_shared<UmountArguments>();
  return {"umount",
          "unmount, and wait until the server processes have exited",
          {arguments("MOUNTPOINT", "mount point of a weightfs mount", given->paths)},
          {{"Options",
            {flag('a', "all", "unmount all mounts of this user; as root, of all users", given->all),
             flag('l', "lazy", "detach a busy mount at once; open files keep working", given->lazy)}}},
          {},
          [given] { return umount(*given); }};
}

}  // namespace weightfs
