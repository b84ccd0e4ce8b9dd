#include "base/files/private_file.h"

#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <string_view>

namespace weightfs {
namespace {

// The private group of this user (with the user's name, and without other members), which many systems create per user;
// -1 if there is none. Files may be writable by it. Looked up once.
gid_t private_group() {
  static const gid_t group = []() -> gid_t {
    std::array<char, 16384> user_text{};
    std::array<char, 16384> group_text{};
    passwd user{};
    struct group its {};
    passwd* found = nullptr;
    struct group* found_group = nullptr;
    constexpr auto kNone = static_cast<gid_t>(-1);
    if (::getpwuid_r(::geteuid(), &user, user_text.data(), user_text.size(), &found) != 0 || found == nullptr)
      return kNone;
    if (::getgrgid_r(user.pw_gid, &its, group_text.data(), group_text.size(), &found_group) != 0 ||
        found_group == nullptr)
      return kNone;
    bool others = std::string_view(its.gr_name) != user.pw_name;
    for (char** member = its.gr_mem; *member != nullptr; ++member)
      others = others || std::string_view(*member) != user.pw_name;
    return others ? kNone : user.pw_gid;
  }();
  return group;
}

}  // namespace

bool is_private(mode_t mode, uid_t user, gid_t group) {
  if (user != 0 && user != ::geteuid()) return false;
  if ((mode & S_IWOTH) != 0) return false;
  return (mode & S_IWGRP) == 0 || group == 0 || group == private_group();
}

bool is_write_protected(int fd, const struct stat& file) {
  if ((file.st_mode & (S_IWUSR | S_IWGRP | S_IWOTH)) == 0 && is_private_file(file)) return true;
  constexpr uint64_t kImmutable = STATX_ATTR_IMMUTABLE | STATX_ATTR_VERITY;
  struct statx status {};
  return ::statx(fd, "", AT_EMPTY_PATH, STATX_TYPE, &status) == 0 && (status.stx_attributes & kImmutable) != 0;
}

bool is_private_file(const struct stat& file) { return is_private(file.st_mode, file.st_uid, file.st_gid); }

}  // namespace weightfs
