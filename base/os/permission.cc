#include "base/os/permission.h"

#include <fmt/core.h>
#include <grp.h>
#include <pwd.h>
#include <sys/xattr.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/os/system_error.h"
#include "base/text.h"
#include "base/values/little_endian.h"

namespace weightfs {
namespace {

constexpr const char* kAcl = "system.posix_acl_access";

// linux/posix_acl_xattr.h: a version, then entries of a tag, a permission and an id, little-endian.
constexpr size_t kAclHeader = 4;
constexpr size_t kAclEntry = 8;
constexpr uint64_t kAclVersion = 2;
enum AclTag : uint64_t { kUserObj = 1, kUser = 2, kGroupObj = 4, kGroup = 8, kMask = 16, kOther = 32 };

struct AclEntry {
  uint64_t tag;
  unsigned bits;
  uint64_t id;
};

// Nothing when it is not valid.
std::optional<std::vector<AclEntry>> parse_acl(std::string_view acl) {
  if (acl.size() < kAclHeader || (acl.size() - kAclHeader) % kAclEntry != 0) return std::nullopt;
  if (little_endian(acl.substr(0, kAclHeader)) != kAclVersion) return std::nullopt;
  std::vector<AclEntry> entries;
  for (size_t at = kAclHeader; at < acl.size(); at += kAclEntry)
    entries.push_back({little_endian(acl.substr(at, 2)), static_cast<unsigned>(little_endian(acl.substr(at + 2, 2))),
                       little_endian(acl.substr(at + 4, 4))});
  return entries;
}

bool is_member(const UserRights& rights, uint64_t group) {
  return std::find(rights.groups.begin(), rights.groups.end(), group) != rights.groups.end();
}

// acl(5), "ACCESS CHECK ALGORITHM".
bool is_permitted_by_acl(const UserRights& rights, const FilePermissions& file, unsigned wanted) {
  const auto entries = parse_acl(file.acl);
  if (!entries) return false;
  unsigned mask = 7;
  unsigned other = 0;
  for (const AclEntry& entry : *entries) {
    if (entry.tag == kMask) mask = entry.bits;
    if (entry.tag == kOther) other = entry.bits;
  }
  for (const AclEntry& entry : *entries)
    if (entry.tag == kUser && entry.id == rights.user) return (entry.bits & mask & wanted) == wanted;
  bool is_in_a_group = false;
  bool all_groups_permit = true;
  for (const AclEntry& entry : *entries) {
    if (entry.tag != kGroupObj && entry.tag != kGroup) continue;
    const bool permits = (entry.bits & mask & wanted) == wanted;
    all_groups_permit = all_groups_permit && permits;
    if (!is_member(rights, entry.tag == kGroupObj ? file.group : entry.id)) continue;
    if (permits) return true;
    is_in_a_group = true;
  }
  if (!rights.has_known_groups && !all_groups_permit) return false;
  return !is_in_a_group && (other & wanted) == wanted;
}

// In the mode's own place for the owner (shift 6), the group (3) and others (0).
bool has_bits(mode_t mode, unsigned shift, unsigned wanted) { return (mode >> shift & wanted) == wanted; }

}  // namespace

UserRights UserRights::of(uid_t user) {
  UserRights rights{user, {}, false};
  std::vector<char> buffer(64 * 1024);
  passwd entry{};
  passwd* found = nullptr;
  if (::getpwuid_r(user, &entry, buffer.data(), buffer.size(), &found) != 0 || found == nullptr) return rights;
  int count = 0;  // the first call only counts the groups
  while (::getgrouplist(entry.pw_name, entry.pw_gid, rights.groups.data(), &count) < 0)
    rights.groups.resize(static_cast<size_t>(count));
  rights.groups.resize(static_cast<size_t>(count));
  rights.has_known_groups = true;
  return rights;
}

bool is_permitted(const UserRights& rights, const FilePermissions& file, Permission wanted) {
  const auto bits = static_cast<unsigned>(wanted);
  if (rights.user == file.owner) return has_bits(file.mode, 6, bits);
  if (!file.acl.empty()) return is_permitted_by_acl(rights, file, bits);
  if (is_member(rights, file.group)) return has_bits(file.mode, 3, bits);
  return has_bits(file.mode, 0, bits) && (rights.has_known_groups || has_bits(file.mode, 3, bits));
}

Result<FilePermissions> permissions_of(int descriptor, const struct stat& status) {
  FilePermissions file{status.st_uid, status.st_gid, status.st_mode, ""};
  std::string acl(64 * 1024, '\0');  // XATTR_SIZE_MAX
  ssize_t got = ::fgetxattr(descriptor, kAcl, acl.data(), acl.size());
  // A descriptor of O_PATH.
  if (got < 0 && errno == EBADF)
    got = ::getxattr(fmt::format("/proc/self/fd/{}", descriptor).c_str(), kAcl, acl.data(), acl.size());
  if (got < 0 && errno != ENODATA && errno != EOPNOTSUPP) return failure(io_error("access control list"));
  if (got > 0) file.acl.assign(acl, 0, static_cast<size_t>(got));
  return file;
}

}  // namespace weightfs
