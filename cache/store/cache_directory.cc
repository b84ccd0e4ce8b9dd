#include "cache/cache_directory.h"

#include <fmt/core.h>
#include <unistd.h>

#include <filesystem>

#include "base/os/mounts.h"
#include "base/text.h"

namespace weightfs {

Result<std::string> cache_directory() {
  // Absolute, because a mount changes its working directory.
  std::error_code failed;
  if (const std::string configured = environment("WEIGHTFS_CACHE"); !configured.empty()) {
    const std::string path = std::filesystem::absolute(configured, failed);
    return failed ? configured : path;
  }
  // The XDG Base Directory Specification requires to ignore relative paths.
  if (const std::string caches = environment("XDG_CACHE_HOME"); caches.starts_with('/')) return caches + "/weightfs";
  // Under sudo, $HOME may be another user's.
  if (::geteuid() == 0) return "/var/cache/weightfs";
  if (const std::string home = environment("HOME"); home.starts_with('/')) return home + "/.cache/weightfs";
  return failure(Code::not_found, "no cache directory: none of WEIGHTFS_CACHE, XDG_CACHE_HOME and HOME is set");
}

// Checks the path lexically first, so that no link in a mount is read.
Result<void> check_not_in_a_mount(const std::string& directory, const std::string& mountpoint) {
  const Mounts mounts = Mounts::now();
  const auto is_in_mount = [&](const std::string& path) {
    return mounts.is_on_weightfs(path) || (!mountpoint.empty() && is_at_or_below(path, mountpoint));
  };
  std::error_code failed;
  const auto absolute = std::filesystem::absolute(directory, failed);
  if (!is_in_mount(absolute.lexically_normal()) && !is_in_mount(std::filesystem::weakly_canonical(absolute, failed)))
    return {};
  return failure(
      Code::unsupported,
      fmt::format("{}: the cache cannot be in a weightfs mount; set WEIGHTFS_CACHE to another directory", directory));
}

}  // namespace weightfs
