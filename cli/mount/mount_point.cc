#include "cli/mount/mount_point.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <system_error>
#include <thread>

#include "base/os/mounts.h"
#include "base/text.h"
#include "cli/mount/mount_report.h"
#include "cli/mount/unmount.h"
#include "cli/process/isolated.h"
#include "cli/verbs.h"
#include "fs/source_tree.h"

namespace weightfs {
namespace {

// Another one has it from the mount to the first answer. Whoever may look into the directory can lock it for longer:
// to keep us from mounting is not theirs.
constexpr std::chrono::seconds kLongestClaim{5};

std::string reason(int error) { return std::generic_category().message(error); }

// The path without links; of what does not exist (or answer) yet, that of the directory it lies in.
Result<std::string> real_path(const std::string& path) {
  std::error_code error;
  const auto real = std::filesystem::canonical(path, error);
  if (!error) return real.string();
  return absolute_path(path);
}

bool is_root_of_weightfs(const Descriptor& found, const std::string& path) {
  const auto id = mount_id_of("self", std::to_string(found.number()));
  const Mounts now = Mounts::now();
  const Mount* mount = id ? now.find(*id) : nullptr;
  return mount != nullptr && mount->is_weightfs() && mount->point == path;
}

tl::unexpected<Error> there_already(const std::string& path) {
  return failure(Code::io, str(path, ": weightfs is mounted there already"));
}

// A mount whose server died is of no use to anybody, and in the way.
Result<void> clear_away(const Mount& mount, const std::string& path) {
  if (ask_mounts({mount}).front().state != MountState::dead) return there_already(path);
  const Unmounted unmounted = unmount(mount, Detach::now);
  if (unmounted.end != Unmounted::done)
    return failure(Code::io, str(path, ": a mount whose server died, which cannot be removed: ", unmounted.why));
  log_to_stderr(str(path, ": removed a mount whose server had died"));
  return {};
}

}  // namespace

Result<MountPoint> MountPoint::at(const std::string& path) {
  if (const auto mount = weightfs_at(path)) TRY_VOID(clear_away(*mount, path));
  MountPoint point(TRY(real_path(path)));
  struct stat found {};
  if (::stat(point.path_.c_str(), &found) == 0) {
    if (!S_ISDIR(found.st_mode)) return failure(Code::io, str(path, ": not a directory"));
  } else if (errno != ENOENT) {
    return failure(Code::io, str(path, ": ", reason(errno)));
  }
  return point;
}

MountPoint MountPoint::of_mount(const std::string& path) {
  if (Mounts::now().on(path)) return MountPoint(path);
  std::error_code error;
  const auto real = std::filesystem::canonical(path, error);
  return MountPoint(error ? path : real.string());
}

Result<void> MountPoint::make() {
  made_ = ::mkdir(path_.c_str(), 0755) == 0;
  if (!made_ && errno != EEXIST) return failure(Code::io, str(path_, ": ", reason(errno)));
  return {};
}

// The lock is on the directory itself, and stays there when that is covered. It is the kernel's own affair: no server
// of files is asked for one on a directory. Who may mount there but not list it does without; so does an automount
// point, which O_DIRECTORY by its path would trigger: whoever looks there waits for us.
Result<void> MountPoint::claim() {
  const Descriptor found(::open(path_.c_str(), O_PATH | O_CLOEXEC));
  if (is_root_of_weightfs(found, path_)) return there_already(path_);
  claim_ = Descriptor(::open(str("/proc/self/fd/", found.number()).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const auto limit = std::chrono::steady_clock::now() + kLongestClaim;
  while (claim_ && ::flock(claim_.number(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK &&
         std::chrono::steady_clock::now() < limit)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  // Until just now somebody else may have had the claim.
  const Descriptor by_now(::open(path_.c_str(), O_PATH | O_CLOEXEC));
  if (is_root_of_weightfs(by_now, path_)) return there_already(path_);
  std::error_code unreadable;
  const std::string claimed = str("/proc/self/fd/", claim_.number());
  if (claim_ && !made_ && !std::filesystem::is_empty(claimed, unreadable) && !unreadable)
    log_to_stderr(str(path_, ": what lies there is hidden as long as it is mounted on"));
  return {};
}

void MountPoint::remove_if_made() const {
  if (!made_) return;
  (void)ask_apart_if_possible([this] {
    ::rmdir(path_.c_str());
    return Map();
  });
}

std::string name_of_sources(const std::vector<std::string>& sources) {
  return sources.size() == 1 ? sources[0] : str(sources.at(0), " and ", sources.size() - 1, " more");
}

Result<void> check_hides_none(const std::vector<std::string>& sources, const std::string& point) {
  for (const std::string& source : sources) {
    std::error_code no_path;
    const auto real = std::filesystem::canonical(source, no_path);
    if (!no_path && is_at_or_below(real, point))
      return failure(Code::unsupported, str(printable(point), ": a mount there would hide what it shows, ",
                                            printable(source), ": mount it elsewhere"));
  }
  return {};
}

}  // namespace weightfs
