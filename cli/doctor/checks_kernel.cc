#include <fmt/core.h>
#include <sys/utsname.h>

#include <cstdio>

#include "base/text.h"
#include "cli/doctor/checks.h"

namespace weightfs::doctor {

Checks check_kernel() {
  utsname system{};
  if (::uname(&system) != 0) return {{"kernel", Verdict::warning, "version unknown"}};
  unsigned major = 0;
  unsigned minor = 0;
  std::sscanf(system.release, "%u.%u", &major, &minor);
  const bool passthrough = major > 6 || (major == 6 && minor >= 9);
  return {{"kernel", Verdict::ok, fmt::format("{} {}", system.sysname, printable(system.release))},
          {"passthrough", Verdict::ok,
           passthrough ? "available in mounts by root and services, if the kernel has FUSE_PASSTHROUGH"
                       : "not available; needs Linux 6.9 with FUSE_PASSTHROUGH"}};
}

}  // namespace weightfs::doctor
