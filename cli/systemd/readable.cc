#include "cli/systemd/readable.h"

#include <fmt/core.h>
#include <unistd.h>

#include <cerrno>

#include "base/text.h"
#include "cli/process/user.h"

namespace weightfs::service {
namespace {

bool is_denied(const std::string& path, int mode) { return ::access(path.c_str(), mode) != 0 && errno == EACCES; }

Result<void> permission_error(const char* what, const std::string& path) {
  return failure(Code::io, fmt::format("{}: user {} cannot {} it; grant access by mode, group or ACL", printable(path),
                                       user_name(::getuid()), what));
}

}  // namespace

Result<void> check_reachable(const std::string& path) {
  for (size_t slash = path.find('/', 1); slash != std::string::npos; slash = path.find('/', slash + 1))
    if (const std::string parent = path.substr(0, slash); is_denied(parent, X_OK))
      return permission_error("enter", parent);
  return {};
}

Result<void> check_readable(const std::string& source) {
  if (!source.starts_with('/')) return {};
  if (const auto reached = check_reachable(source); !reached) return reached;
  if (is_denied(source, R_OK)) return permission_error("read", source);
  // Fails with ENOTDIR for a file.
  if (is_denied(source + "/.", X_OK)) return permission_error("enter", source);
  return {};
}

}  // namespace weightfs::service
