#include "base/files/path_walk.h"

#include <fcntl.h>
#include <fmt/core.h>

#include <array>
#include <cerrno>
#include <climits>

#include "base/os/system_error.h"
#include "base/text.h"

namespace weightfs {
namespace {

constexpr int kMaxLinks = 40;  // as the kernel, path_resolution(7)
constexpr int kPath = O_PATH | O_NOFOLLOW | O_CLOEXEC;
constexpr const char* kNotFollowed = "a symbolic link out of SOURCE is not followed; ";

// Puts the components of a path before those that remain, in reverse.
void put_before(std::vector<std::string>& remaining, std::string_view path) {
  while (!path.empty()) {
    const size_t slash = path.rfind('/');
    const std::string_view last = slash == path.npos ? path : path.substr(slash + 1);
    if (!last.empty() && last != ".") remaining.emplace_back(last);
    path = slash == path.npos ? std::string_view() : path.substr(0, slash);
  }
}

void note_owner(std::optional<uid_t>& owner, const struct stat& status) {
  if (!owner && status.st_uid != 0) owner = status.st_uid;
}

}  // namespace

Result<void> check_rights(const UserRights& rights, int descriptor, const struct stat& status, Permission wanted) {
  const auto permissions = permissions_of(descriptor, status);
  if (permissions && is_permitted(rights, *permissions, wanted)) return {};
  return failure(Code::forbidden,
                 fmt::format("not readable by the owner of SOURCE (uid {}); root does not show it to other users{}",
                             rights.user, permissions ? "" : ": " + permissions.error().message));
}

Result<OpenedPath> PathWalk::open(std::string_view path, OpenFor purpose) {
  put_before(remaining_, path);
  while (!remaining_.empty()) {
    const std::string component = std::move(remaining_.back());
    remaining_.pop_back();
    last_.clear();
    TRY_VOID(check_search());
    TRY_VOID(component == ".." ? go_up() : step(component));
  }
  return open_last(last_.empty() ? "." : last_, purpose);
}

// O_DIRECTORY triggers an automount.
Result<void> PathWalk::step(const std::string& component) {
  Descriptor directory(::openat(current(), component.c_str(), kPath | O_DIRECTORY));
  if (directory) return enter(std::move(directory));
  if (errno != ENOTDIR && errno != ELOOP) return tl::unexpected(error(errno));
  const Descriptor found(::openat(current(), component.c_str(), kPath));
  struct stat status {};
  if (!found || ::fstat(found.number(), &status) != 0) return tl::unexpected(error(errno));
  if (S_ISLNK(status.st_mode)) return follow(found.number(), status);
  if (!remaining_.empty()) return tl::unexpected(error(ENOTDIR));
  last_ = component;
  return {};
}

Result<void> PathWalk::enter(Descriptor directory) {
  struct stat status {};
  if (::fstat(directory.number(), &status) != 0) return tl::unexpected(error(errno));
  note_owner(directory_owner_, status);
  below_.push_back(std::move(directory));
  return come_back_if_inside();
}

Result<void> PathWalk::go_up() {
  if (below_.empty()) return leave(base(), "..");
  below_.pop_back();
  return {};
}

Result<void> PathWalk::leave(int from, const char* path) {
  Descriptor directory(::openat(from, path, kPath | O_DIRECTORY));
  if (!directory) return tl::unexpected(error(errno));
  below_.clear();
  outside_base_ = std::move(directory);
  // An outward path without a link (`..`) has no link owner for the rules.
  has_foreign_link_ = has_foreign_link_ || links_ == 0;
  return come_back_if_inside();
}

// A path that leaves the directory and returns is allowed.
Result<void> PathWalk::come_back_if_inside() {
  if (!is_outside()) return {};
  struct stat here {};
  struct stat root {};
  if (::fstat(current(), &here) != 0 || ::fstat(root_, &root) != 0) return tl::unexpected(error(errno));
  if (here.st_dev != root.st_dev || here.st_ino != root.st_ino) return {};
  below_.clear();
  outside_base_ = Descriptor();
  has_foreign_link_ = false;
  return {};
}

// Links are resolved by their text, also in /proc, where the target differs from the text.
Result<void> PathWalk::follow(int link, const struct stat& status) {
  if (++links_ > kMaxLinks) return tl::unexpected(error(ELOOP));
  std::array<char, PATH_MAX> target{};
  const ssize_t length = ::readlinkat(link, "", target.data(), target.size());
  if (length < 0) return tl::unexpected(error(errno));
  note_owner(link_owner_, status);
  // Root's own links outside are part of the system.
  const bool is_owned = rules_.trust_owner && status.st_uid == rules_.user;
  const bool is_trusted = is_owned || (is_outside() && status.st_uid == 0);
  has_foreign_link_ = has_foreign_link_ || !is_trusted;
  const std::string_view text(target.data(), static_cast<size_t>(length));
  put_before(remaining_, text);
  return text.starts_with('/') ? leave(root_, "/") : Result<void>();
}

Result<OpenedPath> PathWalk::open_last(const std::string& component, OpenFor purpose) {
  // Opening a device can have side effects, so it is opened only if permitted. A directory without search permission
  // can still be examined.
  OpenedPath opened{Descriptor(component == "." ? ::fcntl(current(), F_DUPFD_CLOEXEC, 0)
                                                : ::openat(current(), component.c_str(), kPath)),
                    {}};
  if (!opened.descriptor || ::fstat(opened.descriptor.number(), &opened.status) != 0)
    return tl::unexpected(error(errno));
  TRY_VOID(check_place(opened.status));
  if (purpose == OpenFor::status) return opened;
  if (purpose == OpenFor::read && !S_ISREG(opened.status.st_mode)) return failure(Code::io, "not a regular file");
  const int flags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
  const int directory = purpose == OpenFor::list ? O_DIRECTORY : 0;
  opened.descriptor = Descriptor(::openat(current(), component.c_str(), flags | directory));
  if (!opened.descriptor || ::fstat(opened.descriptor.number(), &opened.status) != 0)
    return tl::unexpected(error(errno));
  // The name may refer to another file by now: the opened file is checked.
  TRY_VOID(check_place(opened.status));
  const bool is_root = component == "." && below_.empty() && !is_outside();
  if (rules_.rights && !is_root)
    TRY_VOID(check_rights(*rules_.rights, opened.descriptor.number(), opened.status, Permission::read));
  return opened;
}

// Not of the directory that everything is below: the mounting user named that.
Result<void> PathWalk::check_search() const {
  if (!rules_.rights || (below_.empty() && !is_outside())) return {};
  if (is_refused_outside()) return {};  // the error of the link, unless the path returns into the directory
  struct stat status {};
  if (::fstat(current(), &status) != 0) return tl::unexpected(error(errno));
  return check_rights(*rules_.rights, current(), status, Permission::search);
}

Result<void> PathWalk::check_place(const struct stat& status) const {
  if (is_refused_outside()) return tl::unexpected(refused_link());
  if (is_outside() && !rules_.follow_links && status.st_uid != rules_.user)
    return failure(Code::forbidden,
                   fmt::format("{}the owner of its target is not the mounting user; use --follow-links", kNotFollowed));
  return {};
}

// A refused link must not reveal whether its target outside exists.
Error PathWalk::error(int number) const {
  if (is_refused_outside()) return refused_link();
  return {errno_code(number), errno_text(number)};
}

Error PathWalk::refused_link() const {
  if (!rules_.trust_owner)
    return {Code::forbidden, "a symbolic link out of the model's directory is not followed; use --follow-links"};
  return {Code::forbidden, fmt::format("{}its owner is not the mounting user; use --follow-links", kNotFollowed)};
}

}  // namespace weightfs
