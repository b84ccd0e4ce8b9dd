#include "fs/mounts.h"

#include <sys/sysmacros.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <utility>
#include <vector>

namespace weightfs {
namespace {

// proc(5): in /proc/self/mountinfo blanks and backslashes are \ooo.
std::string unescaped(const std::string& text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 3 < text.size()) {
      out += static_cast<char>(std::strtoul(text.substr(i + 1, 3).c_str(), nullptr, 8));
      i += 3;
    } else {
      out += text[i];
    }
  }
  return out;
}

struct Mount {
  dev_t device;
  std::string point;
};

// A line: id parent major:minor root point options [tags] - type source options.
std::vector<Mount> weightfs_mounts() {
  std::vector<Mount> mounts;
  std::ifstream table("/proc/self/mountinfo");
  for (std::string line; std::getline(table, line);) {
    if (line.find(" - fuse.weightfs ") == line.npos) continue;
    std::istringstream fields(line);
    std::string id, parent, root, point;
    unsigned device_major = 0;
    unsigned device_minor = 0;
    char colon = 0;
    if (fields >> id >> parent >> device_major >> colon >> device_minor >> root >> point)
      mounts.push_back({makedev(device_major, device_minor), unescaped(point)});
  }
  return mounts;
}

}  // namespace

bool is_weightfs_mount(const std::string& path) {
  for (const Mount& mount : weightfs_mounts())
    if (mount.point == path) return true;
  return false;
}

std::set<dev_t> weightfs_devices() {
  std::set<dev_t> devices;
  for (const Mount& mount : weightfs_mounts()) devices.insert(mount.device);
  return devices;
}

}  // namespace weightfs
