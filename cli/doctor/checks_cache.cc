#include <fcntl.h>
#include <fmt/core.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <system_error>

#include "base/os/mounts.h"
#include "base/os/system_error.h"
#include "base/text.h"
#include "cache/blob_store.h"
#include "cache/cache_directory.h"
#include "cache/disk_quota.h"
#include "cache/maintenance.h"
#include "cache/paths.h"
#include "cli/doctor/checks.h"

namespace weightfs::doctor {
namespace {

constexpr const char* kName = "cache";

// The nearest existing directory on a path.
std::string existing_parent(std::filesystem::path path) {
  std::error_code failed;
  while (!std::filesystem::exists(path, failed) && path.has_relative_path()) path = path.parent_path();
  return path;
}

// The file system type of a path, as in /proc/mounts.
std::string file_system_of(const std::string& path) {
  const int found = ::open(path.c_str(), O_PATH | O_CLOEXEC);
  if (found < 0) return {};
  const auto id = mount_id_of("self", std::to_string(found));
  ::close(found);
  const Mounts mounts = Mounts::now();
  const Mount* mount = id ? mounts.find(*id) : nullptr;
  return mount == nullptr ? "" : printable(mount->type);
}

// Why this file system type is unsuitable for a cache; empty if it is suitable.
std::string file_system_problem(const std::string& file_system) {
  constexpr std::array kNetworkTypes = {"nfs", "nfs4", "cifs", "smb3", "9p", "ceph", "afs"};
  if (std::find(kNetworkTypes.begin(), kNetworkTypes.end(), file_system) != kNetworkTypes.end())
    return "on a network file system, which is slow";
  if (file_system == "tmpfs" || file_system == "ramfs") return "in memory, lost at the next boot";
  return {};
}

Check check_directory(const std::string& directory) {
  const char* advice = "set WEIGHTFS_CACHE to another directory";
  const auto allowed = check_not_in_a_mount(directory);
  if (!allowed) return {kName, Verdict::failure, allowed.error().message, advice};
  const std::string there = existing_parent(directory);
  const std::string file_system = file_system_of(there);
  const std::string where =
      fmt::format("{}{}", directory, file_system.empty() ? "" : fmt::format(" ({})", file_system));
  if (there != directory && ::access(there.c_str(), W_OK | X_OK) != 0)
    return {kName, Verdict::warning, fmt::format("{} cannot be created: {}", directory, errno_text(errno)), advice};
  // A missing directory is created on demand.
  const auto folders = open_folders(directory, Missing::fail);
  if (!folders && folders.error().code != Code::not_found)
    return {kName, Verdict::warning, fmt::format("cannot be used: {}", folders.error().message), advice};
  if (folders && ::access(directory.c_str(), W_OK | X_OK) != 0)
    return {kName, Verdict::warning, fmt::format("{}: {}", directory, errno_text(errno)), advice};
  const std::string problem = file_system_problem(file_system);
  if (!problem.empty()) return {kName, Verdict::warning, fmt::format("{}: {}", where, problem), advice};
  return {kName, Verdict::ok, folders ? where : where + ", created on demand"};
}

Check check_space(const std::string& directory, uint64_t used) {
  struct statvfs system {};
  if (::statvfs(existing_parent(directory).c_str(), &system) != 0)
    return {"cache space", Verdict::warning, errno_text(errno)};
  const uint64_t free = uint64_t{system.f_bavail} * system.f_frsize;
  const uint64_t quota = default_quota(directory);
  const uint64_t left = quota - std::min(used, quota);
  const std::string found = fmt::format("{} used of {} (a quarter of its file system), {} free", human_size(used),
                                        human_size(quota), human_size(free));
  if (left <= free) return {"cache space", Verdict::ok, found};
  return {"cache space", Verdict::warning,
          fmt::format("{}: the disk fills up before the cache reaches its quota", found),
          "free disk space, or set --cache-size"};
}

Check check_partial_downloads(const store::Inventory& contents) {
  uint64_t count = 0;
  uint64_t bytes = 0;
  for (const store::Item& item : contents.items) {
    if (item.kind != ItemKind::part || item.is_active) continue;
    ++count;
    bytes += item.on_disk;
  }
  if (count == 0) return {"partial downloads", Verdict::ok, "none"};
  return {"partial downloads", Verdict::ok, fmt::format("{}, {}", count, human_size(bytes)),
          "the next read resumes them; `weightfs cache gc` removes them"};
}

}  // namespace

Checks check_cache() {
  const auto directory = cache_directory();
  if (!directory)
    return {{kName, Verdict::warning, directory.error().message,
             "set WEIGHTFS_CACHE; without a cache, unpacked and downloaded data is not cached"}};
  Checks checks = {check_directory(*directory)};
  const auto contents = CacheMaintenance(*directory).inventory();
  checks.push_back(check_space(*directory, contents ? usage_of(*contents).all_bytes : 0));
  if (contents) checks.push_back(check_partial_downloads(*contents));
  return checks;
}

}  // namespace weightfs::doctor
