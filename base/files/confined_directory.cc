#include "base/files/confined_directory.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <linux/openat2.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cerrno>
#include <climits>

#include "base/files/open_files.h"
#include "base/os/system_error.h"
#include "base/text.h"

namespace weightfs {
namespace {

Error system_error(int number) { return {errno_code(number), errno_text(number)}; }

int flags_for(OpenFor purpose) {
  if (purpose == OpenFor::status) return O_PATH | O_CLOEXEC;
  const int flags = O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
  return purpose == OpenFor::list ? flags | O_DIRECTORY : flags;
}

// A negative errno where it fails.
int openat2_beneath(int directory, const char* name, int flags) {
  open_how how{};
  how.flags = static_cast<decltype(how.flags)>(flags);
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS;
  const long descriptor = ::syscall(SYS_openat2, directory, name, &how, sizeof how);
  return descriptor < 0 ? -errno : static_cast<int>(descriptor);
}

// Errors after which the path is resolved here: an outward link (EXDEV), a concurrent rename (EAGAIN), openat2 missing
// (ENOSYS) or denied by a sandbox (EPERM).
bool needs_walk(int error) { return error == EXDEV || error == EAGAIN || error == ENOSYS || error == EPERM; }

}  // namespace

Result<NamedFile> find_named_file(const std::string& path) {
  const Descriptor root(::open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
  Confinement rules;
  rules.follow_links = true;
  PathWalk walk(root.number(), rules);
  auto opened = walk.open(path, OpenFor::status);
  if (!opened) return failure(opened.error().code, fmt::format("{}: {}", path, opened.error().message));
  return NamedFile{std::move(opened->descriptor), opened->status, walk.link_owner(), walk.directory_owner()};
}

namespace {

// File systems may leave the type out.
unsigned char type_of(const dirent& entry, int directory) {
  struct stat found {};
  if (entry.d_type != DT_UNKNOWN || ::fstatat(directory, &entry.d_name[0], &found, AT_SYMLINK_NOFOLLOW) != 0)
    return entry.d_type;
  return static_cast<unsigned char>(IFTODT(found.st_mode));
}

}  // namespace

Result<std::vector<DirectoryEntry>> entries_of(const Descriptor& directory) {
  // The stream takes over the descriptor that it is given.
  const int own = ::fcntl(directory.number(), F_DUPFD_CLOEXEC, 0);
  DIR* const stream = own < 0 ? nullptr : ::fdopendir(own);
  if (stream == nullptr) return tl::unexpected(system_error(errno));
  std::vector<DirectoryEntry> entries;
  errno = 0;
  while (const dirent* entry = ::readdir(stream)) {
    const std::string_view name(&entry->d_name[0]);
    if (name != "." && name != "..") entries.push_back({std::string(name), type_of(*entry, own)});
    errno = 0;
  }
  const int error = errno;
  ::closedir(stream);
  if (error != 0) return tl::unexpected(system_error(error));
  std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return entries;
}

ConfinedDirectory::ConfinedDirectory(Descriptor directory, std::string path, Confinement rules)
    : directory_(std::move(directory)), path_(std::move(path)), rules_(std::move(rules)) {}

std::string ConfinedDirectory::path_of(std::string_view name) const {
  if (name.empty()) return path_;
  return fmt::format("{}{}{}", path_, path_.ends_with('/') ? "" : "/", name);
}

Confinement ConfinedDirectory::rules_for(Links links) const {
  Confinement rules = rules_;
  rules.follow_links = rules.follow_links || links == Links::named;
  return rules;
}

Result<struct stat> ConfinedDirectory::examine(const std::string& name, Links links) const {
  return TRY(open(name, OpenFor::status, links)).status;
}

Result<std::shared_ptr<const ConfinedDirectory>> ConfinedDirectory::below(const std::string& name) const {
  auto opened = TRY(open(name, OpenFor::status));
  Confinement rules = rules_;
  rules.trust_owner = false;
  return std::make_shared<const ConfinedDirectory>(std::move(opened.descriptor), path_of(name), std::move(rules));
}

Result<std::vector<DirectoryEntry>> ConfinedDirectory::list(const std::string& name) const {
  const auto opened = TRY(open(name, OpenFor::list));
  return entries_of(opened.descriptor).map_error([&](const Error& error) {
    return Error{error.code, fmt::format("{}: {}", path_of(name), error.message)};
  });
}

// If the process has no free descriptor, those of files that are not in use are closed.
Result<OpenedPath> ConfinedDirectory::open(const std::string& name, OpenFor purpose, Links links) const {
  const Confinement rules = rules_for(links);
  auto opened = open_once(rules, name, purpose);
  if (!opened && opened.error().code == Code::resource && recent_files().clear())
    opened = open_once(rules, name, purpose);
  return opened;
}

// The kernel resolves the path, unless the rules require a check of a user's rights at each step.
Result<OpenedPath> ConfinedDirectory::open_once(const Confinement& rules, const std::string& name,
                                                OpenFor purpose) const {
  const auto about = [&](const Error& error) {
    return Error{error.code, fmt::format("{}: {}", path_of(name), error.message)};
  };
  if (name.find('\0') != name.npos) return tl::unexpected(about({Code::not_found, "a NUL byte in a name"}));
  if (name.size() >= PATH_MAX)
    return failure(Code::not_found, fmt::format("{}: {}", path_of(quoted(name)), errno_text(ENAMETOOLONG)));
  const char* const path = name.empty() ? "." : name.c_str();
  const int got =
      rules.use_openat2 && !rules.rights ? openat2_beneath(directory_.number(), path, flags_for(purpose)) : -ENOSYS;
  if (got < 0 && !needs_walk(-got)) return tl::unexpected(about(system_error(-got)));
  if (got < 0) return PathWalk(directory_.number(), rules).open(name, purpose).map_error(about);
  OpenedPath opened{Descriptor(got), {}};
  if (::fstat(got, &opened.status) != 0) return tl::unexpected(about(system_error(errno)));
  if (purpose == OpenFor::read && !S_ISREG(opened.status.st_mode))
    return tl::unexpected(about({Code::io, "not a regular file"}));
  return opened;
}

}  // namespace weightfs
