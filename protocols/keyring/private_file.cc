#include "protocols/private_file.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <span>
#include <string_view>

#include "base/files/file_io.h"
#include "base/os/descriptor.h"
#include "base/os/system_error.h"
#include "base/text.h"

namespace weightfs {

Result<std::string> read_private_file(const std::string& path, size_t max) {
  const auto refused = [&](std::string_view why) {
    return failure(Code::io, fmt::format("{} {}", printable(path), why));
  };
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file && errno == ENOENT) return refused("does not exist");
  if (!file) return refused(fmt::format("is not used: {}", errno_text(errno)));
  struct stat status {};
  if (::fstat(file.number(), &status) != 0 || !S_ISREG(status.st_mode)) return refused("is not a regular file");
  if (status.st_uid != ::geteuid()) return refused("is not used: it belongs to another user");
  if ((status.st_mode & (S_IRWXG | S_IRWXO)) != 0) return refused("is not used: others have access to it; chmod 600");
  std::string text(std::min(max, static_cast<size_t>(status.st_size)) + 1, '\0');
  const auto size = read_up_to_end(file.number(), 0, std::as_writable_bytes(std::span(text)));
  if (!size || *size > max)
    return refused(fmt::format("is not used: it cannot be read, or has more than {}", human_size(max)));
  text.resize(*size);
  return text;
}

}  // namespace weightfs
