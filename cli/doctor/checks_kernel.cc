#include <fmt/core.h>
#include <sys/utsname.h>

#include <cstdio>

#include "base/text.h"
#include "cli/doctor/checks.h"
#include "cli/doctor/kernel_features.h"

namespace weightfs::doctor {
namespace {

struct Release {
  unsigned major = 0;
  unsigned minor = 0;
};

Check check_release(Release& release) {
  utsname system{};
  if (::uname(&system) != 0) return {"kernel", Verdict::warning, "version unknown"};
  std::sscanf(system.release, "%u.%u", &release.major, &release.minor);
  return {"kernel", Verdict::ok, fmt::format("{} {}", system.sysname, printable(system.release))};
}

Checks reported_features(const KernelFeatures& kernel) {
  return {{"fuse protocol", Verdict::ok, fmt::format("{}.{}", kernel.major, kernel.minor)},
          {"passthrough", Verdict::ok,
           kernel.passthrough ? "available in mounts by root and services"
                              : "not available; needs Linux 6.9 with FUSE_PASSTHROUGH"},
          {"read-ahead", Verdict::ok, fmt::format("{}; root can raise it", human_size(kernel.read_ahead))},
          {"max request size", Verdict::ok, human_size(kernel.max_request)}};
}

// If the kernel cannot be queried, its version tells which features it may have.
Checks features_by_release(Release release, const std::string& why) {
  const bool passthrough = release.major > 6 || (release.major == 6 && release.minor >= 9);
  return {{"kernel features", Verdict::ok,
           fmt::format("could not be queried ({}); by kernel version, passthrough is {}", why,
                       passthrough ? "available in mounts by root and services if built in" : "not available")}};
}

}  // namespace

Checks check_kernel() {
  Release release;
  Checks checks = {check_release(release)};
  const auto features = kernel_features();
  for (Check& check : features ? reported_features(*features) : features_by_release(release, features.error().message))
    checks.push_back(std::move(check));
  return checks;
}

}  // namespace weightfs::doctor
