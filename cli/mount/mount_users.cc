#include "cli/mount/mount_users.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>

#include "base/text.h"
#include "cli/process/isolated.h"
#include "report/text/map_of.h"

namespace weightfs {
namespace {

using Clock = std::chrono::steady_clock;

// Shorter than the timeout of the isolated process, so that a partial result is returned.
constexpr auto kScanTimeout = kIsolatedTimeout * 3 / 4;

std::vector<std::string> names_in(const std::string& directory) {
  std::vector<std::string> names;
  std::error_code failed;
  for (std::filesystem::directory_iterator entry(directory, failed), end; !failed && entry != end;
       entry.increment(failed))
    names.push_back(entry->path().filename());
  return names;
}

bool is_process(const std::string& name) {
  return std::all_of(name.begin(), name.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// Finds how one process uses a mount.
class ProcessScan {
 public:
  ProcessScan(const Mount& mount, std::string process, Clock::time_point limit)
      : mount_(mount), process_(std::move(process)), limit_(limit) {}

  /// The directories and the program of the process; a few system calls.
  std::optional<std::string> find_quickly() const {
    for (const auto& [link, use] : {std::pair("cwd", "working directory"), std::pair("root", "root directory")})
      if (is_in_mount(link)) return use;
    if (is_in_mount("exe")) return path_in_mount(target("exe"));
    return {};
  }

  /// Its open and mapped files; a system call per file.
  std::optional<std::string> file() const {
    if (auto file = open_file()) return file;
    return mapped_file();
  }

 private:
  std::string path(const std::string& name) const { return "/proc/" + process_ + "/" + name; }

  std::string target(const std::string& link) const {
    std::error_code failed;
    return std::filesystem::read_symlink(path(link), failed);
  }

  // Opening the link target with O_PATH sends no request to its file system.
  bool is_in_mount(const std::string& link) const {
    const int found = ::open(path(link).c_str(), O_PATH | O_CLOEXEC);
    if (found < 0) return false;
    const auto id = mount_id_of("self", std::to_string(found));
    ::close(found);
    return id == mount_.id;
  }

  std::optional<std::string> open_file() const {
    std::error_code failed;
    for (std::filesystem::directory_iterator entry(path("fdinfo"), failed), end;
         !failed && entry != end && Clock::now() < limit_; entry.increment(failed)) {
      const std::string descriptor = entry->path().filename();
      if (mount_id_of(process_, descriptor) == mount_.id) return path_in_mount(target("fd/" + descriptor));
    }
    return {};
  }

  // A line (proc(5)): address permissions offset major:minor inode path.
  std::optional<std::string> mapped_file() const {
    const std::string device = fmt::format("{:02x}:{:02x}", major(mount_.device), minor(mount_.device));
    std::ifstream maps(path("maps"));
    for (std::string line; Clock::now() < limit_ && std::getline(maps, line);) {
      std::istringstream fields(line);
      std::string address, permissions, offset, where, inode, file;
      fields >> address >> permissions >> offset >> where >> inode >> std::ws;
      if (where == device && std::getline(fields, file)) return path_in_mount(file);
    }
    return {};
  }

  std::string path_in_mount(const std::string& file) const {
    const std::string below = mount_.point + "/";
    return file.starts_with(below) ? file.substr(below.size()) : file == mount_.point ? "the mount's root" : file;
  }

  const Mount& mount_;
  const std::string process_;
  const Clock::time_point limit_;
};

std::string program_of(const std::string& process) {
  std::ifstream file("/proc/" + process + "/comm");
  std::string name;
  std::getline(file, name);
  return name;
}

Map scan_processes(const Mount& mount) {
  const auto limit = Clock::now() + kScanTimeout;
  List found;
  std::vector<std::string> others;  // whose files are not scanned yet
  const auto add = [&](const std::string& process, const std::string& use) {
    Map user =
        map_of({{"process", static_cast<uint64_t>(std::stoul(process))}, {"name", program_of(process)}, {"use", use}});
    found.emplace_back(std::move(user));
  };
  for (const std::string& process : names_in("/proc")) {
    if (!is_process(process)) continue;
    const auto use = Clock::now() < limit ? ProcessScan(mount, process, limit).find_quickly() : std::nullopt;
    use ? add(process, *use) : others.push_back(process);
  }
  for (const std::string& process : others) {
    if (Clock::now() >= limit) break;
    if (const auto use = ProcessScan(mount, process, limit).file()) add(process, *use);
  }
  Map result;
  result.append("found", std::move(found));
  result.append("all", static_cast<uint64_t>(Clock::now() < limit));
  return result;
}

}  // namespace

MountUsers find_mount_users(const Mount& mount) {
  const auto result = run_isolated({[&] { return scan_processes(mount); }}).front();
  const List* const list = result ? result->find_as<List>("found") : nullptr;
  if (list == nullptr) return {};
  std::vector<MountUser> users;
  for (const Value& each : *list) {
    const Map* map = std::get_if<Map>(&each);
    if (map != nullptr)
      users.push_back({find_number(*map, "process").value_or(0), find_text(*map, "name").value_or(""),
                       find_text(*map, "use").value_or("")});
  }
  std::sort(users.begin(), users.end(), [](const MountUser& a, const MountUser& b) { return a.process < b.process; });
  return {std::move(users), find_number(*result, "all") == 1};
}

}  // namespace weightfs
