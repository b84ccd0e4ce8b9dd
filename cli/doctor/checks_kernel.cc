#include <sys/utsname.h>

#include <cstdio>

#include "base/text.h"
#include "cli/doctor/checks.h"
#include "cli/doctor/kernel_features.h"

namespace weightfs {
namespace {

struct Release {
  unsigned major = 0;
  unsigned minor = 0;
};

Check check_release(Release& release) {
  utsname system{};
  if (::uname(&system) != 0) return {"kernel", Verdict::warning, "its version is not known"};
  std::sscanf(system.release, "%u.%u", &release.major, &release.minor);
  return {"kernel", Verdict::ok, str(system.sysname, " ", printable(system.release))};
}

Checks told_by(const KernelFeatures& kernel) {
  return {
      {"fuse protocol", Verdict::ok, str(kernel.major, ".", kernel.minor)},
      {"passthrough", Verdict::ok,
       kernel.passthrough ? "offered, to root; this version does not use it" : "not offered; this version needs none"},
      {"read-ahead", Verdict::ok, str(human_size(kernel.read_ahead), "; root can have more")},
      {"largest request", Verdict::ok, human_size(kernel.largest_request)}};
}

// Where the kernel may not be asked, its version tells what it would offer if it was built so.
Checks guessed_by(Release release, const std::string& why) {
  const bool passthrough = release.major > 6 || (release.major == 6 && release.minor >= 9);
  return {{"kernel features", Verdict::ok,
           str("could not be asked (", why, "); by its version, passthrough is ",
               passthrough ? "offered to root, if it was built in" : "not offered")}};
}

}  // namespace

Checks check_kernel() {
  Release release;
  Checks checks = {check_release(release)};
  const auto features = kernel_features();
  for (Check& check : features ? told_by(*features) : guessed_by(release, features.error().message))
    checks.push_back(std::move(check));
  return checks;
}

}  // namespace weightfs
