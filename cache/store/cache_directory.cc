#include "cache/cache_directory.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "base/os/mounts.h"
#include "base/text.h"

namespace weightfs {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

Result<std::string> cache_directory() {
  // Made absolute: a mount leaves the directory that it was started in.
  std::error_code failed;
  if (const std::string own = variable("WEIGHTFS_CACHE"); !own.empty()) {
    const std::string path = std::filesystem::absolute(own, failed);
    return failed ? own : path;
  }
  // The XDG Base Directory Specification: a relative path is to be ignored.
  if (const std::string caches = variable("XDG_CACHE_HOME"); caches.starts_with('/')) return caches + "/weightfs";
  // Under sudo, $HOME may be another user's.
  if (::geteuid() == 0) return "/var/cache/weightfs";
  if (const std::string home = variable("HOME"); home.starts_with('/')) return home + "/.cache/weightfs";
  return failure(Code::not_found, "no directory for the cache: none of WEIGHTFS_CACHE, XDG_CACHE_HOME and HOME is set");
}

// By its names first: no link of a mount is read that way.
Result<void> check_not_in_a_mount(const std::string& directory, const std::string& mountpoint) {
  const Mounts mounts = Mounts::now();
  const auto is_in_one = [&](const std::string& path) {
    return mounts.is_on_weightfs(path) || (!mountpoint.empty() && is_at_or_below(path, mountpoint));
  };
  std::error_code failed;
  const auto named = std::filesystem::absolute(directory, failed);
  if (!is_in_one(named.lexically_normal()) && !is_in_one(std::filesystem::weakly_canonical(named, failed))) return {};
  return failure(Code::unsupported,
                 str(directory, ": the cache cannot be in a weightfs mount; WEIGHTFS_CACHE names another place"));
}

}  // namespace weightfs
