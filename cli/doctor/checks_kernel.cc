#include <fmt/core.h>
#include <sys/utsname.h>

#include <cstdio>
#include <fstream>

#include "base/text.h"
#include "cli/doctor/checks.h"
#include "fs/fuse/rings.h"

namespace weightfs::doctor {

namespace {

Check check_io_uring() {
  Check check{"io_uring", Verdict::ok, fuse::rings_missing()};
  if (!check.found.empty()) return check;
  char enabled = 0;
  std::ifstream("/sys/module/fuse/parameters/enable_uring") >> enabled;
  if (enabled == 0) {
    check.found = "not available; needs Linux 6.14 with FUSE_IO_URING";
  } else if (enabled == 'Y') {
    check.found = "on, for mounts with --offline and --io-uring=auto";
  } else {
    check.found = "off in the kernel";
    check.advice =
        "as root: `echo 1 > /sys/module/fuse/parameters/enable_uring`, then mount with --offline and --io-uring=auto";
  }
  return check;
}

}  // namespace

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
                       : "not available; needs Linux 6.9 with FUSE_PASSTHROUGH"},
          check_io_uring()};
}

}  // namespace weightfs::doctor
