#include "base/os/mounts.h"

#include <sys/sysmacros.h>

#include <algorithm>
#include <fstream>
#include <iterator>

#include "base/text.h"

namespace weightfs {
namespace {

bool is_octal(char c) { return c >= '0' && c <= '7'; }

// Fields are parted by one blank each; a source may be empty.
std::vector<std::string_view> fields_of(std::string_view line) {
  std::vector<std::string_view> fields;
  for (;;) {
    const size_t end = line.find(' ');
    fields.push_back(line.substr(0, end));
    if (end == std::string_view::npos) return fields;
    line.remove_prefix(end + 1);
  }
}

// user_id=0 among the options of a FUSE file system.
std::optional<uid_t> id_among(std::string_view options, std::string_view name) {
  while (!options.empty()) {
    const std::string_view option = options.substr(0, options.find(','));
    if (option.starts_with(name))
      if (const auto id = parse_number<uid_t>(option.substr(name.size()))) return id;
    options.remove_prefix(std::min(option.size() + 1, options.size()));
  }
  return {};
}

}  // namespace

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

// A line: id parent major:minor root point options [tags] - type source options.
std::optional<Mount> mount_in(std::string_view line) {
  const std::vector<std::string_view> fields = fields_of(line);
  const auto dash = std::find(fields.begin(), fields.end(), "-");
  if (dash - fields.begin() < 6 || fields.end() - dash < 4) return {};
  Mount mount{};
  const size_t colon = std::min(fields[2].find(':'), fields[2].size() - 1);
  const auto id = parse_number<uint64_t>(fields[0]);
  const auto parent = parse_number<uint64_t>(fields[1]);
  const auto device_major = parse_number<unsigned>(fields[2].substr(0, colon));
  const auto device_minor = parse_number<unsigned>(fields[2].substr(colon + 1));
  if (!id || !parent || !device_major || !device_minor) return {};
  mount.id = *id;
  mount.parent = *parent;
  mount.device = makedev(*device_major, *device_minor);
  mount.point = unescaped(std::string(fields[4]));
  mount.type = unescaped(std::string(dash[1]));
  mount.source = unescaped(std::string(dash[2]));
  mount.user = id_among(dash[3], "user_id=");
  mount.group = id_among(dash[3], "group_id=");
  return mount;
}

Mounts Mounts::now() {
  Mounts mounts;
  std::ifstream table("/proc/self/mountinfo");
  for (std::string line; std::getline(table, line);)
    if (auto mount = mount_in(line)) mounts.mounts_.push_back(std::move(*mount));
  return mounts;
}

// The last one applies: it covers earlier mounts there or below.
bool Mounts::is_on_weightfs(const std::string& path) const {
  const auto mount = std::find_if(mounts_.rbegin(), mounts_.rend(),
                                  [&](const Mount& each) { return is_at_or_below(path, each.point); });
  return mount != mounts_.rend() && mount->is_weightfs();
}

bool Mounts::is_weightfs(dev_t device) const {
  return std::any_of(mounts_.begin(), mounts_.end(),
                     [&](const Mount& mount) { return mount.is_weightfs() && mount.device == device; });
}

bool Mounts::is_weightfs_point(const std::string& path) const {
  return std::any_of(mounts_.begin(), mounts_.end(),
                     [&](const Mount& mount) { return mount.is_weightfs() && mount.point == path; });
}

const Mount* Mounts::find(uint64_t id) const {
  const auto mount = std::find_if(mounts_.begin(), mounts_.end(), [&](const Mount& each) { return each.id == id; });
  return mount == mounts_.end() ? nullptr : &*mount;
}

std::optional<Mount> Mounts::on(const std::string& path) const {
  const auto mount =
      std::find_if(mounts_.rbegin(), mounts_.rend(), [&](const Mount& each) { return each.point == path; });
  return mount == mounts_.rend() ? std::nullopt : std::optional(*mount);
}

std::vector<Mount> Mounts::of_weightfs() const {
  std::vector<Mount> ours;
  std::copy_if(mounts_.begin(), mounts_.end(), std::back_inserter(ours),
               [](const Mount& m) { return m.is_weightfs(); });
  return ours;
}

std::optional<uint64_t> mount_id_of(const std::string& process, const std::string& descriptor) {
  constexpr std::string_view kKey = "mnt_id:\t";
  std::ifstream about("/proc/" + process + "/fdinfo/" + descriptor);
  for (std::string line; std::getline(about, line);)
    if (line.starts_with(kKey)) return parse_number<uint64_t>(std::string_view(line).substr(kKey.size()));
  return {};
}

bool is_at_or_below(const std::string& path, const std::string& directory) {
  if (directory == "/") return true;
  return path.starts_with(directory) && (path.size() == directory.size() || path[directory.size()] == '/');
}

}  // namespace weightfs
