#include "cli/mount/holders.h"

#include <fcntl.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <sstream>

#include "base/text.h"
#include "cli/process/isolated.h"

namespace weightfs {
namespace {

using Clock = std::chrono::steady_clock;

// Before who asks loses patience: what was found until then is worth something.
constexpr auto kEnough = kPatience * 3 / 4;

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

// Finds what a process has of one mount.
class Grip {
 public:
  Grip(const Mount& mount, std::string process, Clock::time_point limit)
      : mount_(mount), process_(std::move(process)), limit_(limit) {}

  /// What can be seen with a few looks.
  std::optional<std::string> standing() const {
    for (const auto& [link, what] : {std::pair("cwd", "working directory"), std::pair("root", "root directory")})
      if (leads_into_the_mount(link)) return what;
    if (leads_into_the_mount("exe")) return in_the_mount(target("exe"));
    return {};
  }

  /// What takes as many looks as there are files.
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

  // To open what such a link leads to, with O_PATH, asks no file system.
  bool leads_into_the_mount(const std::string& link) const {
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
      if (mount_id_of(process_, descriptor) == mount_.id) return in_the_mount(target("fd/" + descriptor));
    }
    return {};
  }

  // A line (proc(5)): address permissions offset major:minor inode path.
  std::optional<std::string> mapped_file() const {
    std::ostringstream device;
    device << std::hex;
    for (const unsigned number : {major(mount_.device), minor(mount_.device)}) {
      device << (device.tellp() > 0 ? ":" : "");
      device.width(2);
      device.fill('0');
      device << number;
    }
    std::ifstream maps(path("maps"));
    for (std::string line; Clock::now() < limit_ && std::getline(maps, line);) {
      std::istringstream fields(line);
      std::string address, permissions, offset, where, inode, file;
      fields >> address >> permissions >> offset >> where >> inode >> std::ws;
      if (where == device.str() && std::getline(fields, file)) return in_the_mount(file);
    }
    return {};
  }

  std::string in_the_mount(const std::string& file) const {
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

Map look_around(const Mount& mount) {
  const auto limit = Clock::now() + kEnough;
  List found;
  std::vector<std::string> others;  // whose files are still to be looked at
  const auto add = [&](const std::string& process, const std::string& what) {
    Map holder;
    holder.append("process", static_cast<uint64_t>(std::stoul(process)));
    holder.append("name", program_of(process));
    holder.append("what", what);
    found.emplace_back(std::move(holder));
  };
  for (const std::string& process : names_in("/proc")) {
    if (!is_process(process)) continue;
    const auto what = Clock::now() < limit ? Grip(mount, process, limit).standing() : std::nullopt;
    what ? add(process, *what) : others.push_back(process);
  }
  for (const std::string& process : others) {
    if (Clock::now() >= limit) break;
    if (const auto what = Grip(mount, process, limit).file()) add(process, *what);
  }
  Map answer;
  answer.append("found", std::move(found));
  answer.append("all", static_cast<uint64_t>(Clock::now() < limit));
  return answer;
}

}  // namespace

Holders holders_of(const Mount& mount) {
  const auto answer = ask_apart({[&] { return look_around(mount); }}).front();
  const Value* found = answer ? answer->find("found") : nullptr;
  const List* list = found == nullptr ? nullptr : std::get_if<List>(found);
  if (list == nullptr) return {};
  std::vector<Holder> holders;
  for (const Value& each : *list) {
    const Map* map = std::get_if<Map>(&each);
    if (map != nullptr)
      holders.push_back({number_in(*map, "process").value_or(0), text_in(*map, "name").value_or(""),
                         text_in(*map, "what").value_or("")});
  }
  std::sort(holders.begin(), holders.end(), [](const Holder& a, const Holder& b) { return a.process < b.process; });
  return {std::move(holders), number_in(*answer, "all") == 1};
}

}  // namespace weightfs
