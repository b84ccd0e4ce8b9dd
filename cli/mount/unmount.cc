#include "cli/mount/unmount.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/os/descriptor.h"
#include "base/text.h"
#include "cli/process/child_process.h"
#include "cli/process/isolated.h"

namespace weightfs {
namespace {

constexpr const char* kSilent = "what leads there does not answer";

std::string reason(int error) { return std::generic_category().message(error); }

// Where a path leads: through which mount, and under which name. To open it like this asks no server, and triggers no
// automount (as O_DIRECTORY would).
struct Place {
  std::optional<uint64_t> mount;
  std::string path;  // without links
  int error;         // why it leads nowhere, or 0
};

Place place_of(const std::string& path) {
  const int found = ::open(path.c_str(), O_PATH | O_CLOEXEC);
  if (found < 0) return {{}, {}, errno};
  const std::string descriptor = std::to_string(found);
  std::error_code failed;
  Place place{mount_id_of("self", descriptor), std::filesystem::read_symlink("/proc/self/fd/" + descriptor, failed), 0};
  ::close(found);
  return place;
}

std::string last_line(const std::string& text) {
  const size_t end = text.find_last_not_of('\n');
  if (end == std::string::npos) return {};
  return text.substr(text.rfind('\n', end) + 1, end - text.rfind('\n', end));
}

// Through fusermount3, which checks that the mount is the user's.
Unmounted ask_fusermount(const std::string& path, Detach detach) {
  std::vector<std::string> words = {"fusermount3", "-u", "--", path};
  if (detach == Detach::now) words.insert(words.begin() + 1, "-z");
  const Ran ran = run_program(std::move(words), Stderr::kept);
  if (ran.status == 0) return {Unmounted::done, {}};
  // It speaks the C library's English, whatever the locale.
  std::string why = last_line(ran.said);
  if (ran.status >= 0 && why.starts_with("fusermount3: ")) why.erase(0, std::string_view("fusermount3: ").size());
  return {why.ends_with("Device or resource busy") ? Unmounted::busy : Unmounted::refused, why};
}

// Tells the mount only where the path is its root.
Map tell_root_at(const std::string& path) {
  const Place place = place_of(path);
  const Mounts now = Mounts::now();
  const Mount* mount = place.mount ? now.find(*place.mount) : nullptr;
  Map answer;
  answer.append("error", static_cast<uint64_t>(place.error));
  if (mount != nullptr && mount->point == place.path) answer.append("mount", mount->id);
  return answer;
}

}  // namespace

Result<Mount> weightfs_at(const std::string& path) {
  const auto answer = ask_apart_if_possible([&] { return tell_root_at(path); });
  if (!answer) return failure(Code::io, str(path, ": ", kSilent));
  if (const auto error = number_in(*answer, "error").value_or(0); error != 0)
    return failure(Code::io, str(path, ": ", reason(static_cast<int>(error))));
  const auto id = number_in(*answer, "mount");
  const Mounts now = Mounts::now();
  const Mount* mount = id ? now.find(*id) : nullptr;
  if (mount != nullptr && mount->is_weightfs()) return *mount;
  if (mount != nullptr && now.is_weightfs_point(mount->point))
    return failure(Code::io, str(path, ": ", printable(mount->type), " is mounted over weightfs there"));
  return failure(Code::io, str(path, ": weightfs is not mounted there"));
}

Unmounted unmount_here(const Mount& mount, Detach detach) {
  const std::filesystem::path point(mount.point);
  // Held fast: whoever may rename what leads there could have something else unmounted.
  const Descriptor folder(::open(point.parent_path().c_str(), O_PATH | O_CLOEXEC));
  if (!folder) return {Unmounted::refused, reason(errno)};
  const std::string at = str("/proc/self/fd/", folder.number(), "/", point.filename().string());
  // By now something else may be there.
  const Place place = place_of(at);
  if (place.error != 0) return {Unmounted::refused, reason(place.error)};
  if (place.mount != mount.id) return {Unmounted::refused, "something else is mounted over it"};
  if (::umount2(at.c_str(), UMOUNT_NOFOLLOW | (detach == Detach::now ? MNT_DETACH : 0)) == 0)
    return {Unmounted::done, {}};
  if (errno == EPERM && mount.user.value_or(0) != ::geteuid())
    return {Unmounted::refused, "another user mounted it: only that one and root can unmount it"};
  if (errno == EPERM) return ask_fusermount(mount.point, detach);
  return {errno == EBUSY ? Unmounted::busy : Unmounted::refused, reason(errno)};
}

Unmounted unmount(const Mount& mount, Detach detach) {
  const auto answer = ask_apart_if_possible([&] {
    const Unmounted unmounted = unmount_here(mount, detach);
    Map told;
    told.append("end", static_cast<uint64_t>(unmounted.end));
    told.append("why", unmounted.why);
    return told;
  });
  if (!answer) return {Unmounted::silent, kSilent};
  return {static_cast<Unmounted::End>(number_in(*answer, "end").value_or(Unmounted::refused)),
          text_in(*answer, "why").value_or("")};
}

}  // namespace weightfs
