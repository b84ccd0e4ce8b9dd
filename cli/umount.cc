// weightfs umount.
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>
#include <thread>

#include "base/text.h"
#include "cli/mount/holders.h"
#include "cli/mount/mount_report.h"
#include "cli/mount/unmount.h"
#include "cli/verbs.h"

namespace weightfs {
namespace {

struct UmountArguments {
  std::vector<std::string> paths;
  bool all = false;
  bool lazy = false;
};

// What is to be unmounted, under the name that messages call it by.
struct Target {
  std::string name;
  Mount mount;
};

// Those mounted last first: one may be mounted in another.
std::vector<Target> targets_of_the_user() {
  std::vector<Target> targets;
  for (const Mount& mount : Mounts::now().of_weightfs())
    if (::geteuid() == 0 || mount.user == ::getuid()) targets.push_back({mount.point, mount});
  std::reverse(targets.begin(), targets.end());
  return targets;
}

std::string held_by(const std::vector<Holder>& holders) {
  constexpr size_t kMost = 8;
  std::string out;
  for (size_t i = 0; i < std::min(holders.size(), kMost); ++i)
    out += str(i == 0 ? " held by " : ", ", printable(holders[i].name), " (pid ", holders[i].process, ", ",
               printable(holders[i].what), ")");
  return holders.size() > kMost ? str(out, " and ", holders.size() - kMost, " more") : out;
}

// Why it cannot be unmounted, as far as this user may know.
std::string busy(const Target& target) {
  const Mounts now = Mounts::now();
  for (const Mount& each : now.all())
    if (each.parent == target.mount.id)
      return str("busy: ", printable(each.type), " is mounted in it, at ", printable(each.point));
  const Holders holders = holders_of(target.mount);
  const std::string held = held_by(holders.found);
  const char* cut = holders.is_all ? "" : " (there are too many open files here to look at all of them)";
  const char* unseen = ::geteuid() == 0 ? "" : " (processes of other users are not seen)";
  return str("busy:", held.empty() ? " somebody uses it" : held, cut, unseen, "; `weightfs umount --lazy ",
             printable(target.name), "` detaches it now");
}

// The servers of mounts, as descriptors that can be waited on.
class Servers {
 public:
  explicit Servers(const std::vector<Target>& targets) {
    std::vector<Mount> mounts;
    for (const Target& target : targets) mounts.push_back(target.mount);
    for (const MountReport& each : ask_mounts(mounts))
      servers_.push_back(each.server ? static_cast<int>(::syscall(SYS_pidfd_open, *each.server, 0)) : -1);
  }
  ~Servers() {
    for (const int server : servers_)
      if (server >= 0) ::close(server);
  }
  Servers(const Servers&) = delete;
  Servers& operator=(const Servers&) = delete;

  /// That of the target of this number does not end now.
  void forget(size_t number) {
    if (number < servers_.size() && servers_[number] >= 0) ::close(std::exchange(servers_[number], -1));
  }

  /// Until one has ended, the mount point that it made is still there.
  void wait() const {
    constexpr std::chrono::seconds kPatienceInAll{10};
    const auto end = std::chrono::steady_clock::now() + kPatienceInAll;
    for (const int server : servers_) {
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
      pollfd ended{server, POLLIN, 0};
      if (server >= 0 && left.count() > 0) ::poll(&ended, 1, static_cast<int>(left.count()));
    }
  }

 private:
  std::vector<int> servers_;
};

// Unmounts one after the other. Where a file system does not answer for one mount in it, the others in it are not
// waited for.
class Unmounting {
 public:
  explicit Unmounting(Detach detach) : detach_(detach) {}

  Unmounted end(const Mount& mount) {
    if (const auto found = silent_.find(mount.parent); found != silent_.end()) return found->second;
    Unmounted unmounted = unmount_soon(mount);
    if (unmounted.end == Unmounted::silent) silent_.emplace(mount.parent, unmounted);
    return unmounted;
  }

 private:
  // Who only looks, such as `weightfs mounts`, is gone in a moment.
  Unmounted unmount_soon(const Mount& mount) const {
    constexpr std::chrono::milliseconds kMoment{500};
    const auto limit = std::chrono::steady_clock::now() + kMoment;
    for (;;) {
      Unmounted unmounted = unmount(mount, detach_);
      if (unmounted.end != Unmounted::busy || std::chrono::steady_clock::now() >= limit) return unmounted;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  }

  Detach detach_;
  std::map<uint64_t, Unmounted> silent_;  // by the id of the mount that they lie in
};

// Whoever did not name a mount learns that it was unmounted.
enum class Tell { failures, all };

Exit unmount_all(const std::vector<Target>& targets, Detach detach, Tell tell) {
  // One that is in use goes on after it was detached: nothing to wait for.
  Servers servers(detach == Detach::now ? std::vector<Target>() : targets);
  Unmounting unmounting(detach);
  Exit status = Exit::ok;
  for (size_t i = 0; i < targets.size(); ++i) {
    const Unmounted unmounted = unmounting.end(targets[i].mount);
    if (unmounted.end == Unmounted::done) {
      if (tell == Tell::all) std::printf("%s: unmounted\n", printable(targets[i].name).c_str());
      continue;
    }
    servers.forget(i);
    complain({Code::io, str(printable(targets[i].name), ": ",
                            unmounted.end == Unmounted::busy ? busy(targets[i]) : unmounted.why)});
    status = Exit::mount;
  }
  servers.wait();
  return status;
}

Exit umount(const UmountArguments& arguments) {
  if (arguments.all != arguments.paths.empty()) {
    complain({Code::io, str("umount needs a MOUNTPOINT or --all", arguments.all ? ", not both" : "",
                            " (see weightfs umount --help)")});
    return Exit::usage;
  }
  std::vector<Target> targets;
  Exit status = Exit::ok;
  if (arguments.all) targets = targets_of_the_user();
  for (const std::string& path : arguments.paths) {
    const auto mount = weightfs_at(path);
    if (mount) {
      targets.push_back({path, *mount});
    } else {
      complain(mount.error());
      status = Exit::mount;
    }
  }
  // We may have been called in it.
  (void)!::chdir("/");
  const Exit unmounted = unmount_all(targets, arguments.lazy ? Detach::now : Detach::when_unused,
                                     arguments.all ? Tell::all : Tell::failures);
  return status == Exit::ok ? unmounted : status;
}

}  // namespace

void add_umount(CLI::App& app, Run& run) {
  auto arguments = std::make_shared<UmountArguments>();
  CLI::App* verb = app.add_subcommand("umount", "unmount, and wait until the servers have ended");
  verb->add_option("MOUNTPOINT", arguments->paths, "where it is mounted");
  verb->add_flag("-a,--all", arguments->all, "all that this user mounted; as root, everybody's");
  verb->add_flag("-l,--lazy", arguments->lazy, "detach at once what is in use, too; who uses it goes on");
  verb->callback([&run, arguments] { run = [arguments] { return umount(*arguments); }; });
}

}  // namespace weightfs
