#include "base/os/system_error.h"

#include <fmt/core.h>

#include <cerrno>
#include <system_error>

#include "base/text.h"

namespace weightfs {

std::string errno_text(int error) { return std::generic_category().message(error); }

Code errno_code(int error) {
  if (error == EMFILE || error == ENFILE || error == ENOMEM) return Code::resource;
  return error == ENOENT || error == ENOTDIR || error == ENAMETOOLONG ? Code::not_found : Code::io;
}

Error io_error(const std::string& what, int error) {
  return {Code::io, fmt::format("{}: {}", what, errno_text(error))};
}

}  // namespace weightfs
