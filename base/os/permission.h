// Checks whether a user may read a file by its owner, group, mode and access control list (acl(5)), without becoming
// that user. A server of root for other users refuses files that the owner of its SOURCE may not read.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <string>
#include <vector>

#include "base/result.h"

namespace weightfs {

/// A user and the groups that the user is a member of.
struct UserRights {
  uid_t user;
  std::vector<gid_t> groups;
  bool has_known_groups = true;  ///< false: the account is unknown, so the user may be in any group

  /// The rights of an account of this machine (getgrouplist(3)).
  static UserRights of(uid_t user);
};

/// What decides on access to a file.
struct FilePermissions {
  uid_t owner;
  gid_t group;
  mode_t mode;
  std::string acl;  ///< the value of system.posix_acl_access; empty when the file has none
};

enum class Permission : unsigned { read = 4, search = 1 };

/// The decision of the kernel for a process of that user without capabilities; the user is not root. An invalid access
/// control list permits nothing. If the groups are unknown, access must be permitted with and without membership.
bool is_permitted(const UserRights& rights, const FilePermissions& file, Permission wanted);

/// The permissions of an open file, which may have been opened with O_PATH; `status` is that of fstat(2). Fails with io
/// when the access control list cannot be read.
Result<FilePermissions> permissions_of(int descriptor, const struct stat& status);

}  // namespace weightfs
