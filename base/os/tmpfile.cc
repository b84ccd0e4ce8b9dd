#include "base/os/tmpfile.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <utility>

namespace weightfs {
namespace {

std::function<int(const std::string&)> replacement;  // of open_tmpfile()

}  // namespace

void set_tmpfile_opener(std::function<int(const std::string& directory)> opener) { replacement = std::move(opener); }

std::vector<std::string> tmpfile_directories() {
  const char* named = std::getenv("TMPDIR");
  if (named != nullptr && *named != '\0') return {named, "/var/tmp", "/tmp"};
  return {"/var/tmp", "/tmp"};
}

int open_tmpfile(const std::string& directory) {
  if (replacement) return replacement(directory);
  const int fd = ::open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC | O_EXCL, 0600);
  if (fd >= 0) return fd;
  // Some file systems lack O_TMPFILE (overlayfs before Linux 6.6): there the file briefly has a name.
  std::string path = directory + "/weightfs-XXXXXX";
  const int named = ::mkostemp(path.data(), O_CLOEXEC);
  if (named >= 0) ::unlinkat(AT_FDCWD, path.c_str(), 0);  // the only call for this that the sandbox permits
  return named;
}

}  // namespace weightfs
