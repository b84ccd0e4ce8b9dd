#include <fmt/core.h>

#include "base/text.h"
#include "cli/doctor/checks.h"
#include "cli/sandbox/landlock.h"
#include "cli/sandbox/seccomp.h"

namespace weightfs::doctor {
namespace {

Check check_landlock() {
  constexpr int kRestrictsTcp = 4;
  const int version = sandbox::landlock_version();
  if (version == 0)
    return {"landlock", Verdict::warning, "not available: a server can open every file that its user can",
            "use Linux 5.13 or newer, with landlock among the `lsm=` of the kernel's command line"};
  const std::string found = fmt::format("version {}", version);
  if (version >= kRestrictsTcp) return {"landlock", Verdict::ok, found};
  return {"landlock", Verdict::ok, found + "; does not restrict TCP; with --offline seccomp does"};
}

Check check_seccomp() {
  if (sandbox::has_seccomp()) return {"seccomp", Verdict::ok, "available"};
  return {"seccomp", Verdict::warning, "not available: system calls of a server are not filtered",
          "use a kernel with CONFIG_SECCOMP_FILTER"};
}

}  // namespace

Checks check_sandbox() { return {check_landlock(), check_seccomp()}; }

}  // namespace weightfs::doctor
