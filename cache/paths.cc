#include "cache/paths.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/random.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <memory>
#include <string_view>

namespace weightfs {
namespace {

std::string read_boot() {
  const OpenFile file(::open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC));
  std::array<char, 64> text{};
  const ssize_t got = file.fd() < 0 ? 0 : ::read(file.fd(), text.data(), text.size());
  std::string id;
  for (const char c : std::string_view(text.data(), got > 0 ? static_cast<size_t>(got) : 0))
    if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f')) id += c;
  return id.size() < 16 ? "" : id.substr(0, 16);
}

}  // namespace

const std::string& boot() {
  static const std::string id = read_boot();
  return id;
}

std::string random_hex(size_t size) {
  constexpr char kHex[] = "0123456789abcdef";
  std::string bytes(size, '\0');
  // Up to 256 bytes come whole and uninterrupted (getrandom(2)).
  if (::getrandom(bytes.data(), size, 0) != static_cast<ssize_t>(size)) return {};
  std::string hex;
  for (const char c : bytes) {
    hex += kHex[static_cast<unsigned char>(c) >> 4];
    hex += kHex[static_cast<unsigned char>(c) & 15];
  }
  return hex;
}

Result<void> make_directories(const std::string& path) {
  if (::mkdir(path.c_str(), 0700) == 0 || errno == EEXIST) return {};
  if (errno != ENOENT) return tl::unexpected(system_error(path));
  for (size_t slash = path.find('/', 1); slash != std::string::npos; slash = path.find('/', slash + 1)) {
    const std::string above = path.substr(0, slash);
    // Whatever goes wrong here (EROFS, where a directory is there already) goes wrong at the last one, too.
    ::mkdir(above.c_str(), 0700);
  }
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) return tl::unexpected(system_error(path));
  return {};
}

void for_each_in(const std::string& directory, const std::function<void(const std::string&)>& each) {
  const std::unique_ptr<DIR, int (*)(DIR*)> open(::opendir(directory.c_str()), [](DIR* d) { return ::closedir(d); });
  if (open == nullptr) return;
  while (const dirent* entry = ::readdir(open.get())) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") each(name);
  }
}

bool try_lock(int fd) { return ::flock(fd, LOCK_EX | LOCK_NB) == 0; }

void release(int fd) { ::flock(fd, LOCK_UN); }

bool is_at(const std::string& path, int fd) {
  struct stat there {};
  struct stat open {};
  return ::lstat(path.c_str(), &there) == 0 && ::fstat(fd, &open) == 0 && there.st_ino == open.st_ino &&
         there.st_dev == open.st_dev;
}

std::optional<Digest> digest_in_link(const std::string& path) {
  std::array<char, 65> text{};
  const ssize_t got = ::readlink(path.c_str(), text.data(), text.size());
  return got < 0 ? std::nullopt : digest_of_hex(std::string_view(text.data(), static_cast<size_t>(got)));
}

}  // namespace weightfs
