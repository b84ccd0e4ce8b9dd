// weightfs refresh: makes the server of a mount list its directories and resolve its names again, and waits for that.
#include <fmt/core.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <string_view>
#include <thread>

#include "base/os/system_error.h"
#include "base/text.h"
#include "cli/mount/mount_report.h"
#include "cli/mount/unmount.h"
#include "cli/systemd/config.h"
#include "cli/verbs.h"
#include "report/text/words.h"

namespace weightfs {
namespace {

using std::chrono::milliseconds;

constexpr std::chrono::seconds kDefaultTimeout{120};
constexpr milliseconds kInterval{50};
constexpr std::string_view kConfigSuffix = ".conf";

struct RefreshArguments {
  std::vector<std::string> paths;
  std::chrono::seconds timeout = kDefaultTimeout;
};

Result<MountReport> report_of(const Mount& mount, const std::string& name) {
  MountReport report = probe_mounts({mount}).front();
  if (report.state != MountCondition::serving)
    return failure(Code::io, fmt::format("{}: {}", name, name_of(report.state)));
  if (!report.server || !report.refresh)
    return failure(Code::io, fmt::format("{}: its server does not report its process", name));
  return report;
}

// Whether a person knows the version by this text: a digest or a commit. That of a local file is its identity.
bool is_known_to_people(std::string_view version) {
  const size_t colon = version.find(':');
  return version.substr(colon == version.npos ? 0 : colon + 1).find_first_not_of("0123456789abcdef") == version.npos;
}

std::string outcome_of(const MountReport::Refresh& before, const MountReport::Refresh& after) {
  if (after.mounted != before.mounted) {
    const bool is_shown = is_known_to_people(before.mounted) && is_known_to_people(after.mounted);
    return is_shown ? fmt::format("was {}, is {}", before.mounted, after.mounted) : "the model was replaced";
  }
  if (after.changed == 0) return "nothing has changed";
  return counted(after.changed, "entry", "entries") + " changed";
}

// The exit status that the server reports; any other number is not trusted.
Exit status_of(uint64_t reported) {
  const bool is_known = reported > 0 && reported <= static_cast<uint64_t>(Exit::unavailable);
  return is_known ? static_cast<Exit>(reported) : Exit::io;
}

Result<Exit> refresh_mount(const std::string& name, const Mount& mount, std::chrono::seconds timeout) {
  const MountReport first = TRY(report_of(mount, name));
  const MountReport::Refresh before = *first.refresh;
  if (::kill(*first.server, SIGHUP) != 0)
    return failure(Code::io, errno == EPERM ? fmt::format("{}: only its user and root can refresh it", name)
                                            : fmt::format("{}: {}", name, errno_text(errno)));
  // A refresh that is running began before the signal.
  const uint64_t count = before.count + (before.is_running ? 2 : 1);
  const auto end = std::chrono::steady_clock::now() + timeout;
  for (;;) {
    std::this_thread::sleep_for(kInterval);
    const MountReport now = TRY(report_of(mount, name));
    if (now.refresh->count >= count) {
      const bool has_failed = !now.refresh->error.empty();
      const std::string text = has_failed ? now.refresh->error : outcome_of(before, *now.refresh);
      if (!has_failed) std::printf("%s: %s\n", printable(name).c_str(), printable(text).c_str());
      if (has_failed) log_to_stderr(fmt::format("{}: {}", name, text));
      return has_failed ? status_of(now.refresh->exit_status) : Exit::ok;
    }
    if (std::chrono::steady_clock::now() > end)
      return failure(Code::network,
                     fmt::format("{}: not refreshed after {} s; the refresh continues", name, timeout.count()));
  }
}

// A mount point, or the configuration of a service.
Result<std::string> mount_point_of(const std::string& path) {
  if (!path.ends_with(kConfigSuffix)) return path;
  return TRY(service::read_config(path)).mountpoint;
}

Exit refresh_one(const std::string& path, std::chrono::seconds timeout) {
  const auto point = mount_point_of(path);
  if (!point) return report_error(point.error());
  const auto mount = weightfs_at(*point);
  if (!mount) return report_error(mount.error(), Exit::mount);
  const auto refreshed = refresh_mount(path, *mount, timeout);
  return refreshed ? *refreshed : report_error(refreshed.error());
}

Exit refresh(const RefreshArguments& arguments) {
  Exit status = Exit::ok;
  for (const std::string& path : arguments.paths) {
    const Exit one = refresh_one(path, arguments.timeout);
    if (status == Exit::ok) status = one;
  }
  return status;
}

}  // namespace

Command refresh_command() {
  const auto given = std::make_shared<RefreshArguments>();
  return {"refresh",
          "show the models that are there now: list directories and resolve names again",
          {arguments("MOUNTPOINT", "mount point of a weightfs mount, or the configuration file of a service",
                     given->paths, Argument::Count::some)},
          {{"Options",
            {seconds("wait", "give up waiting after this long (default: 120)",
                     {1, std::numeric_limits<unsigned>::max(), "is not a number of seconds"}, given->timeout)}}},
          {},
          [given] { return refresh(*given); }};
}

}  // namespace weightfs
