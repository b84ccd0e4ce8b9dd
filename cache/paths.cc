#include "cache/paths.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/random.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <memory>
#include <string_view>

#include "base/text.h"

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

// A directory that only this user and root can have changed.
Result<OpenFilePtr> open_ours(int at, const std::string& name, int how, const std::string& path) {
  const int fd = ::openat(at, name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | how);
  if (fd < 0) return tl::unexpected(system_error(path));
  auto folder = std::make_shared<const OpenFile>(fd);
  struct stat status {};
  if (::fstat(fd, &status) != 0) return tl::unexpected(system_error(path));
  if (status.st_uid != ::geteuid() && status.st_uid != 0)
    return failure(Code::unavailable, str(path, ": belongs to another user, ", status.st_uid));
  if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0)
    return failure(Code::unavailable, str(path, ": others may write there"));
  return folder;
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

Result<FoldersPtr> open_folders(const std::string& top, Missing missing) {
  if (missing == Missing::make) TRY_VOID(make_directories(top));
  const OpenFilePtr above = TRY(open_ours(AT_FDCWD, top, 0, top));
  const auto below = [&](const OpenFilePtr& folder, const std::string& name, const std::string& path) {
    if (missing == Missing::make) ::mkdirat(folder->fd(), name.c_str(), 0700);  // if that fails, opening it does
    return open_ours(folder->fd(), name, O_NOFOLLOW, str(top, path));
  };
  auto folders = std::make_shared<Folders>();
  folders->top = top;
  folders->root = TRY(below(above, "v1", "/v1"));
  folders->blobs = TRY(below(folders->root, "blobs", "/v1/blobs"));
  folders->index = TRY(below(folders->root, "index", "/v1/index"));
  folders->making = TRY(below(folders->root, "making", "/v1/making"));
  return folders;
}

std::string blob_file(const Digest& digest) {
  const std::string hex = digest.hex();
  return str(hex.substr(0, 2), "/", hex);
}

std::string index_link(const Name& name) { return sha256(name.key).hex(); }

void for_each_in(const OpenFile& folder, const std::string& name, const std::function<void(const std::string&)>& each) {
  const int fd = ::openat(folder.fd(), name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return;
  const std::unique_ptr<DIR, int (*)(DIR*)> open(::fdopendir(fd), [](DIR* d) { return ::closedir(d); });
  if (open == nullptr) {
    ::close(fd);
    return;
  }
  while (const dirent* entry = ::readdir(open.get())) {
    const std::string here = entry->d_name;
    if (here != "." && here != "..") each(here);
  }
}

void sweep(const Folders& folders) {
  const OpenFile& making = *folders.making;
  for_each_in(making, ".", [&](const std::string& name) {
    const int fd = ::openat(making.fd(), name.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) return;
    const OpenFile file(fd);
    if (try_lock(fd) && is_at(making, name, fd)) ::unlinkat(making.fd(), name.c_str(), 0);
  });
}

bool try_lock(int fd) { return ::flock(fd, LOCK_EX | LOCK_NB) == 0; }

void release(int fd) { ::flock(fd, LOCK_UN); }

bool is_at(const OpenFile& folder, const std::string& name, int fd) {
  struct stat there {};
  struct stat open {};
  return ::fstatat(folder.fd(), name.c_str(), &there, AT_SYMLINK_NOFOLLOW) == 0 && ::fstat(fd, &open) == 0 &&
         there.st_ino == open.st_ino && there.st_dev == open.st_dev;
}

std::optional<Digest> digest_in_link(const OpenFile& folder, const std::string& name) {
  std::array<char, 65> text{};
  const ssize_t got = ::readlinkat(folder.fd(), name.c_str(), text.data(), text.size());
  return got < 0 ? std::nullopt : digest_of_hex(std::string_view(text.data(), static_cast<size_t>(got)));
}

}  // namespace weightfs
