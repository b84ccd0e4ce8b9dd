// Resolves a path below a directory one component at a time, each relative to the previous open directory. So a
// directory cannot be replaced by a symbolic link during the walk, and outward links are judged by their owners.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/os/descriptor.h"
#include "base/os/permission.h"
#include "base/result.h"

namespace weightfs {

/// What may be opened below a directory.
struct Confinement {
  uid_t user = ::getuid();                ///< the mounting user
  bool follow_links = false;              ///< follow outward links of any owner
  bool trust_owner = true;                ///< follow outward links of the mounting user
  std::optional<UserRights> rights = {};  ///< refuse files that this user may not read; empty: only the kernel checks
  bool use_openat2 = true;                ///< false: as on a kernel before 5.6, which lacks openat2(2)
};

/// The purpose of opening a path: to examine (O_PATH), list, or read it.
enum class OpenFor { status, list, read };

/// An open file. The status is that of the open file.
struct OpenedPath {
  Descriptor descriptor;
  struct stat status;
};

/// Fails with unsupported when that user may not do so with an open file, `status` being that of fstat(2).
Result<void> check_rights(const UserRights& rights, int descriptor, const struct stat& status, Permission wanted);

/// One resolution; not for use by two threads.
class PathWalk {
 public:
  /// `directory` is borrowed. `rules` must outlive it.
  PathWalk(int directory, const Confinement& rules) : root_(directory), rules_(rules) {}

  /// Opens `path`, relative to the directory. Symbolic links that stay below the directory are followed. An outward
  /// link is followed if the rules permit it: `follow_links`, or the mounting user owns the links and the target. Fails
  /// with unsupported if the rules forbid it, with not_found, and with io; messages do not name the path.
  Result<OpenedPath> open(std::string_view path, OpenFor purpose);

  /// The first owner, other than root, of a symbolic link that was followed, and of a directory that was passed.
  std::optional<uid_t> link_owner() const { return link_owner_; }
  std::optional<uid_t> directory_owner() const { return directory_owner_; }

 private:
  int current() const { return below_.empty() ? base() : below_.back().number(); }
  int base() const { return outside_base_ ? outside_base_.number() : root_; }
  bool is_outside() const { return static_cast<bool>(outside_base_); }
  bool is_refused_outside() const { return is_outside() && has_foreign_link_ && !rules_.follow_links; }

  Result<void> step(const std::string& component);
  Result<void> enter(Descriptor directory);
  Result<void> go_up();
  Result<void> leave(int from, const char* path);
  Result<void> come_back_if_inside();
  Result<void> follow(int link, const struct stat& status);
  Result<OpenedPath> open_last(const std::string& component, OpenFor purpose);
  Result<void> check_search() const;
  Result<void> check_place(const struct stat& status) const;
  Error error(int number) const;
  Error refused_link() const;

  int root_;
  const Confinement& rules_;
  std::vector<Descriptor> below_;       // the directories entered below base()
  Descriptor outside_base_;             // open while outside of the directory
  std::vector<std::string> remaining_;  // components, the next one last
  std::string last_;                    // the file that the path ends with; empty when it ends with a directory
  int links_ = 0;
  bool has_foreign_link_ = false;  // one that the mounting user does not own was followed
  std::optional<uid_t> link_owner_;
  std::optional<uid_t> directory_owner_;
};

}  // namespace weightfs
