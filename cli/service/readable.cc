#include "cli/service/readable.h"

#include <unistd.h>

#include <cerrno>

#include "base/text.h"
#include "cli/process/user.h"

namespace weightfs {
namespace {

bool is_refused(const std::string& path, int mode) { return ::access(path.c_str(), mode) != 0 && errno == EACCES; }

Result<void> refused(const char* what, const std::string& path) {
  return failure(Code::io, str(printable(path), ": the user ", user_name(::getuid()), " may not ", what,
                               " it: a mode, a group or an ACL can let it"));
}

}  // namespace

Result<void> check_reachable(const std::string& path) {
  for (size_t slash = path.find('/', 1); slash != std::string::npos; slash = path.find('/', slash + 1))
    if (const std::string parent = path.substr(0, slash); is_refused(parent, X_OK)) return refused("enter", parent);
  return {};
}

Result<void> check_readable(const std::string& source) {
  if (!source.starts_with('/')) return {};
  if (const auto reached = check_reachable(source); !reached) return reached;
  if (is_refused(source, R_OK)) return refused("read", source);
  // Of a file's mode this asks nothing.
  if (is_refused(source + "/.", X_OK)) return refused("enter", source);
  return {};
}

}  // namespace weightfs
