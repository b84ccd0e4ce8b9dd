#include "base/mounts.h"

#include <sys/sysmacros.h>

#include <algorithm>
#include <fstream>
#include <sstream>

namespace weightfs {
namespace {

bool is_octal(char c) { return c >= '0' && c <= '7'; }

// proc(5): in /proc/self/mountinfo blanks and backslashes are \ooo.
std::string unescaped(const std::string& text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool escape = text[i] == '\\' && i + 3 < text.size() && std::all_of(&text[i + 1], &text[i + 4], is_octal);
    out += escape ? static_cast<char>(std::stoi(text.substr(i + 1, 3), nullptr, 8)) : text[i];
    i += escape ? 3 : 0;
  }
  return out;
}

}  // namespace

// A line: id parent major:minor root point options [tags] - type source options.
Mounts Mounts::now() {
  Mounts mounts;
  std::ifstream table("/proc/self/mountinfo");
  for (std::string line; std::getline(table, line);) {
    std::istringstream fields(line);
    std::string id, parent, root, point;
    unsigned device_major = 0;
    unsigned device_minor = 0;
    char colon = 0;
    const size_t dash = line.find(" - ");
    if (!(fields >> id >> parent >> device_major >> colon >> device_minor >> root >> point) || dash == line.npos) continue;
    const size_t type = dash + 3;
    mounts.mounts_.push_back({makedev(device_major, device_minor), unescaped(point),
                              unescaped(line.substr(type, line.find(' ', type) - type))});
  }
  return mounts;
}

// The last one counts: it covers what was mounted there, or below it, before.
bool Mounts::is_on_weightfs(const std::string& path) const {
  const auto mount = std::find_if(mounts_.rbegin(), mounts_.rend(),
                                  [&](const Mount& each) { return is_at_or_below(path, each.point); });
  return mount != mounts_.rend() && mount->is_weightfs();
}

bool Mounts::is_weightfs(dev_t device) const {
  return std::any_of(mounts_.begin(), mounts_.end(),
                     [&](const Mount& mount) { return mount.is_weightfs() && mount.device == device; });
}

std::string Mounts::type_at(const std::string& path) const {
  const auto mount =
      std::find_if(mounts_.rbegin(), mounts_.rend(), [&](const Mount& each) { return each.point == path; });
  return mount == mounts_.rend() ? "" : mount->type;
}

std::optional<dev_t> Mounts::weightfs_at(const std::string& path) const {
  const auto mount = std::find_if(mounts_.rbegin(), mounts_.rend(),
                                  [&](const Mount& each) { return each.is_weightfs() && each.point == path; });
  return mount == mounts_.rend() ? std::nullopt : std::optional(mount->device);
}

bool Mounts::Mount::is_weightfs() const { return type == "fuse.weightfs"; }

bool Mounts::is_weightfs_point(const std::string& path) const { return weightfs_at(path).has_value(); }

bool is_at_or_below(const std::string& path, const std::string& directory) {
  if (directory == "/") return true;
  return path.starts_with(directory) && (path.size() == directory.size() || path[directory.size()] == '/');
}

}  // namespace weightfs
