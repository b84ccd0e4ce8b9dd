#include "cli/mount/mounted_source.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "base/os/mounts.h"
#include "cli/mount/mount_point.h"
#include "cli/mount/mount_report.h"
#include "sources/source.h"

namespace weightfs {
namespace {

// The last mount that the path is in: it covers earlier ones.
const Mount* mount_of(const Mounts& mounts, const std::string& path) {
  const auto found = std::find_if(mounts.all().rbegin(), mounts.all().rend(),
                                  [&](const Mount& mount) { return is_at_or_below(path, mount.point); });
  return found == mounts.all().rend() ? nullptr : &*found;
}

// The kernel has the source that was mounted; of several it has the first one, and the server all of them.
Result<std::vector<std::string>> sources_of(const Mount& mount, const std::string& source) {
  const MountReport report = probe_mounts({mount}).front();
  if (report.state != MountCondition::serving)
    return failure(Code::io, fmt::format("{}: the mount at {} is {}", source, mount.point, name_of(report.state)));
  if (report.sources.empty()) return std::vector<std::string>{mount.source};
  if (source_label(report.sources) == mount.source) return report.sources;
  return failure(Code::unsupported,
                 fmt::format("{}: the sources of the mount at {} are not known", source, mount.point));
}

}  // namespace

Result<std::optional<MountedSource>> mounted_source(const std::string& source) {
  const Mounts mounts = Mounts::now();
  if (!is_path(source) || mounts.of_weightfs().empty()) return std::nullopt;
  std::error_code error;
  const std::string path = std::filesystem::canonical(source, error);
  const Mount* const mount = error ? nullptr : mount_of(mounts, path);
  if (mount == nullptr || !mount->is_weightfs() || !std::filesystem::is_directory(path, error)) return std::nullopt;
  if (mount->user.value_or(0) != 0 && mount->user != ::geteuid())
    return failure(Code::unsupported,
                   fmt::format("{}: another user has mounted it; name the source of the mount", source));
  MountedSource found{TRY(sources_of(*mount, source)), path.substr(mount->point.size())};
  if (found.inside.starts_with('/')) found.inside.erase(0, 1);
  return found;
}

}  // namespace weightfs
