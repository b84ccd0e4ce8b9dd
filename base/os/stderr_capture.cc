#include "base/os/stderr_capture.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <string_view>

namespace weightfs {

StderrCapture::StderrCapture()
    : file_(::memfd_create("stderr", MFD_CLOEXEC)), before_(::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3)) {
  if (file_ >= 0) ::dup2(file_, STDERR_FILENO);
}

StderrCapture::~StderrCapture() {
  if (before_ >= 0) ::dup2(before_, STDERR_FILENO);
  if (before_ >= 0) ::close(before_);
  if (file_ >= 0) ::close(file_);
}

std::string StderrCapture::last_line() const {
  std::array<char, 1024> text{};
  const ssize_t got = ::pread(file_, text.data(), text.size(), 0);
  std::string_view line(text.data(), got > 0 ? static_cast<size_t>(got) : 0);
  while (line.ends_with('\n')) line.remove_suffix(1);
  line = line.substr(line.rfind('\n') + 1);
  for (const std::string_view program : {"fuse: ", "fusermount3: ", "fusermount: "})
    if (line.starts_with(program)) line.remove_prefix(program.size());
  return std::string(line);
}

}  // namespace weightfs
