#include <fmt/core.h>
#include <sys/resource.h>

#include <filesystem>
#include <fstream>
#include <system_error>

#include "base/os/mounts.h"
#include "base/text.h"
#include "cache/certificates.h"
#include "cli/doctor/checks.h"
#include "cli/mount/mount_report.h"
#include "report/text/words.h"

namespace weightfs::doctor {
namespace {

Check check_certificates() {
  const Certificates trusted = Certificates::find();
  if (trusted.empty())
    return {"certificates", Verdict::warning, "none found: downloads over https fail",
            "install ca-certificates, or set SSL_CERT_FILE"};
  const std::string& place = trusted.file.empty() ? trusted.directory : trusted.file;
  std::error_code failed;
  const bool is_empty = !trusted.file.empty() && (std::filesystem::file_size(trusted.file, failed) == 0 || failed);
  if (is_empty)
    return {"certificates", Verdict::warning,
            fmt::format("{}: {}: downloads over https fail", place, failed ? failed.message() : "empty"),
            "correct " + trusted.setting.substr(0, trusted.setting.find('='))};
  return {"certificates", Verdict::ok, trusted.setting.empty() ? place : trusted.setting};
}

Check check_descriptors() {
  constexpr rlim_t kMinDescriptors = 4096;  // a model may have a thousand files, which may be read at once
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return {"open files", Verdict::warning, "limit unknown"};
  if (limit.rlim_max == RLIM_INFINITY) return {"open files", Verdict::ok, "no limit"};
  const std::string found = fmt::format("at most {}", limit.rlim_max);
  if (limit.rlim_max >= kMinDescriptors) return {"open files", Verdict::ok, found};
  return {"open files", Verdict::warning, fmt::format("{}: each file that is read needs one", found),
          "raise the hard limit (`ulimit -Hn`, LimitNOFILE=)"};
}

// A mount of directories needs one watch for each directory that was listed.
Check check_watches() {
  constexpr uint64_t kMinWatches = 8192;
  uint64_t limit = 0;
  std::ifstream("/proc/sys/fs/inotify/max_user_watches") >> limit;
  const std::string found = fmt::format("at most {} directories for each user", limit);
  if (limit >= kMinWatches) return {"inotify", Verdict::ok, found};
  return {"inotify", Verdict::warning, fmt::format("{}; others are compared every second", found),
          "raise fs.inotify.max_user_watches (sysctl)"};
}

std::string mountpoints_with(const std::vector<MountReport>& reports, MountCondition state) {
  std::vector<std::string> points;
  for (const MountReport& each : reports)
    if (each.state == state) points.push_back(printable(each.mount.point));
  return enumerated(points);
}

constexpr size_t kMaxReason = 200;  // of the server, which is not trusted

// How the files of a mount are read. Always ok: a slower tier is not a problem of the machine.
Check tiers_of(const std::string& mountpoint, const MountReport::Tiers& tiers) {
  const std::string passes =
      tiers.reason.empty() ? "files can pass through" : "no file passes through: " + tiers.reason.substr(0, kMaxReason);
  return {fmt::format("tiers of {}", printable(mountpoint)), Verdict::ok,
          fmt::format("{}; opened so far: {} by passthrough, {} by the server", printable(passes), tiers.passthrough,
                      tiers.server)};
}

// Always ok: rings are an option.
Check requests_of(const std::string& mountpoint, const std::string& refusal) {
  const std::string reason = printable(refusal.substr(0, kMaxReason));
  return {fmt::format("requests of {}", printable(mountpoint)), Verdict::ok,
          reason.empty() ? "by io_uring" : "by /dev/fuse: " + reason};
}

Checks check_mounts() {
  const auto reports = probe_mounts(Mounts::now().of_weightfs());
  const std::string dead = mountpoints_with(reports, MountCondition::dead);
  const std::string unresponsive = mountpoints_with(reports, MountCondition::unresponsive);
  Checks checks;
  if (!dead.empty())
    checks.push_back({"mounts", Verdict::warning, fmt::format("server process died: {}", dead),
                      "remove them with `weightfs umount`"});
  if (!unresponsive.empty())
    checks.push_back({"mounts", Verdict::warning, fmt::format("server not responding: {}", unresponsive),
                      "see its log; detach them with `weightfs umount --lazy`"});
  if (checks.empty())
    checks.push_back({"mounts", Verdict::ok, reports.empty() ? "none" : std::to_string(reports.size())});
  for (const MountReport& each : reports)
    if (each.tiers) checks.push_back(tiers_of(each.mount.point, *each.tiers));
  for (const MountReport& each : reports)
    if (each.no_rings) checks.push_back(requests_of(each.mount.point, *each.no_rings));
  return checks;
}

}  // namespace

Checks check_limits() {
  Checks checks = {check_certificates(), check_descriptors(), check_watches()};
  for (Check& check : check_mounts()) checks.push_back(std::move(check));
  return checks;
}

}  // namespace weightfs::doctor
