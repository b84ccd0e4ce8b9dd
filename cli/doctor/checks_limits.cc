#include <sys/resource.h>
#include <sys/stat.h>

#include <filesystem>
#include <system_error>

#include "base/os/mounts.h"
#include "base/text.h"
#include "cli/doctor/checks.h"
#include "cli/mount/mount_report.h"

namespace weightfs {
namespace {

// Where Debian's libcurl and OpenSSL look.
constexpr const char* kCertificates = "/etc/ssl/certs/ca-certificates.crt";

Check check_certificates() {
  std::error_code failed;
  const auto size = std::filesystem::file_size(kCertificates, failed);
  if (!failed && size > 0) return {"certificates", Verdict::ok, kCertificates};
  return {"certificates", Verdict::warning,
          str(kCertificates, ": ", failed ? failed.message() : "empty", ": nothing can be fetched over https"),
          "install ca-certificates"};
}

Check check_descriptors() {
  constexpr rlim_t kEnough = 4096;  // a model may have a thousand files, a mount many models
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return {"open files", Verdict::warning, "the limit is not known"};
  if (limit.rlim_max == RLIM_INFINITY) return {"open files", Verdict::ok, "no limit"};
  const std::string found = str("at most ", limit.rlim_max);
  if (limit.rlim_max >= kEnough) return {"open files", Verdict::ok, found};
  return {"open files", Verdict::warning, str(found, ": a mount keeps each file of its models open"),
          "raise the hard limit (`ulimit -Hn`, LimitNOFILE=)"};
}

std::string points_of(const std::vector<MountReport>& reports, MountState state) {
  std::string out;
  for (const MountReport& each : reports)
    if (each.state == state) out += str(out.empty() ? "" : ", ", printable(each.mount.point));
  return out;
}

Checks check_mounts() {
  const auto reports = ask_mounts(Mounts::now().of_weightfs());
  const std::string dead = points_of(reports, MountState::dead);
  const std::string silent = points_of(reports, MountState::silent);
  Checks checks;
  if (!dead.empty())
    checks.push_back(
        {"mounts", Verdict::warning, str("the server has died: ", dead), "`weightfs umount` removes them"});
  if (!silent.empty())
    checks.push_back({"mounts", Verdict::warning, str("the server does not answer: ", silent),
                      "see its log; `weightfs umount --lazy` detaches them"});
  if (checks.empty()) checks.push_back({"mounts", Verdict::ok, reports.empty() ? "none" : str(reports.size())});
  return checks;
}

}  // namespace

Checks check_limits() {
  Checks checks = {check_certificates(), check_descriptors()};
  for (Check& check : check_mounts()) checks.push_back(std::move(check));
  return checks;
}

}  // namespace weightfs
