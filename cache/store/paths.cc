#include "cache/paths.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <fstream>
#include <memory>
#include <string_view>

#include "base/files/confined_directory.h"
#include "base/files/file_io.h"
#include "base/os/descriptor.h"
#include "base/os/system_error.h"
#include "base/text.h"

namespace weightfs {
namespace {

using namespace store;

std::string read_boot_id() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  std::getline(file, id);
  std::erase(id, '-');
  return id.size() < 16 ? "" : id.substr(0, 16);
}

// Opens a directory that only this user and root can modify.
Result<SharedDescriptor> open_private(int at, const std::string& name, int flags, const std::string& path) {
  const int fd = ::openat(at, name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | flags);
  if (fd < 0 && errno == ENOENT) return failure(Code::not_found, fmt::format("{}: no such directory", path));
  if (fd < 0) return failure(io_error(path));
  auto folder = std::make_shared<const Descriptor>(fd);
  struct stat status {};
  if (::fstat(fd, &status) != 0) return failure(io_error(path));
  if (status.st_uid != ::geteuid() && status.st_uid != 0)
    return failure(Code::resource, fmt::format("{}: owned by another user, {}", path, status.st_uid));
  if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0)
    return failure(Code::resource, fmt::format("{}: writable by other users", path));
  return folder;
}

Result<SharedDescriptor> open_pins(const Folders& folders) {
  return open_private(folders.root->number(), "pins", O_NOFOLLOW, folders.top + "/v1/pins");
}

constexpr size_t kMaxNamesFile = 4000;  // bytes: one block on the disk

std::string names_file(const Digest& file) { return fmt::format("{}/{}", kNamesFolder, file.hex()); }

constexpr std::array<std::pair<NameKind, std::string_view>, 5> kNameKinds = {{{NameKind::model, "model "},
                                                                              {NameKind::url, "url "},
                                                                              {NameKind::member, "member "},
                                                                              {NameKind::record, "record "},
                                                                              {NameKind::keeper, "keeper "}}};

std::string line_of(const Name& name) {
  const auto kind = std::ranges::find(kNameKinds, name.kind, &std::pair<NameKind, std::string_view>::first);
  return fmt::format("{}{}\n", kind->second, printable(name.text));
}

// Nothing for a line that this version does not know.
std::optional<Name> name_in(std::string_view line) {
  for (const auto& [kind, prefix] : kNameKinds)
    if (line.starts_with(prefix)) return Name{kind, std::string(line.substr(prefix.size()))};
  return std::nullopt;
}

}  // namespace

const std::string& boot_id() {
  static const std::string id = read_boot_id();
  return id;
}

std::string random_hex() {
  uint64_t number = 0;
  if (::getrandom(&number, sizeof number, 0) != sizeof number) return {};
  return fmt::format("{:016x}", number);
}

Result<void> create_directories(const std::string& path) {
  if (::mkdir(path.c_str(), 0700) == 0 || errno == EEXIST) return {};
  if (errno != ENOENT) return failure(io_error(path));
  for (size_t slash = path.find('/', 1); slash != std::string::npos; slash = path.find('/', slash + 1)) {
    const std::string above = path.substr(0, slash);
    // Errors here (EROFS on an existing directory) show again at the last mkdir().
    ::mkdir(above.c_str(), 0700);
  }
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) return failure(io_error(path));
  return {};
}

Result<FoldersPtr> open_folders(const std::string& top, Missing missing) {
  if (missing == Missing::create) TRY_VOID(create_directories(top));
  const SharedDescriptor above = TRY(open_private(AT_FDCWD, top, 0, top));
  const auto below = [&](const SharedDescriptor& folder, const std::string& name, const std::string& path) {
    if (missing == Missing::create)
      ::mkdirat(folder->number(), name.c_str(), 0700);  // a failure shows when it is opened
    return open_private(folder->number(), name, O_NOFOLLOW, fmt::format("{}{}", top, path));
  };
  auto folders = std::make_shared<Folders>();
  folders->top = top;
  folders->root = TRY(below(above, "v1", "/v1"));
  folders->blobs = TRY(below(folders->root, "blobs", "/v1/blobs"));
  folders->index = TRY(below(folders->root, "index", "/v1/index"));
  folders->making = TRY(below(folders->root, "making", "/v1/making"));
  return folders;
}

std::optional<Digest> digest_of_name(std::string_view name) {
  const auto digest = digest_of_hex(name);
  return digest && digest->hex() == name ? digest : std::nullopt;  // not upper case
}

std::string blob_file(const Digest& digest) {
  const std::string hex = digest.hex();
  return fmt::format("{}/{}", hex.substr(0, 2), hex);
}

std::string index_link(const std::string& key) { return sha256(key).hex(); }

Result<std::set<Digest>> pins(const Folders& folders) {
  const auto folder = open_pins(folders);
  if (!folder && folder.error().code == Code::not_found) return std::set<Digest>{};
  if (!folder) return tl::unexpected(folder.error());
  const auto entries = entries_of(**folder);
  if (!entries)
    return failure(entries.error().code, fmt::format("{}/v1/pins: {}", folders.top, entries.error().message));
  std::set<Digest> pins;
  for (const DirectoryEntry& entry : *entries)
    if (const auto digest = digest_of_name(entry.name)) pins.insert(*digest);
  return pins;
}

bool is_pinned(const Folders& folders, const Digest& file) {
  struct stat status {};
  return ::fstatat(folders.root->number(), fmt::format("pins/{}", file.hex()).c_str(), &status, AT_SYMLINK_NOFOLLOW) ==
         0;
}

Result<bool> add_pin(const Folders& folders, const Digest& digest) {
  ::mkdirat(folders.root->number(), "pins", 0700);  // a failure shows when it is opened
  const SharedDescriptor folder = TRY(open_pins(folders));
  const Descriptor pin(::openat(folder->number(), digest.hex().c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (pin) return true;
  if (errno == EEXIST) return false;
  return failure(io_error(fmt::format("{}/v1/pins/{}", folders.top, digest.hex())));
}

Result<bool> remove_pin(const Folders& folders, const Digest& digest) {
  const auto folder = open_pins(folders);
  if (!folder && folder.error().code == Code::not_found) return false;
  if (!folder) return tl::unexpected(folder.error());
  if (::unlinkat((*folder)->number(), digest.hex().c_str(), 0) == 0) return true;
  if (errno == ENOENT) return false;
  return failure(io_error(fmt::format("{}/v1/pins/{}", folders.top, digest.hex())));
}

std::vector<Name> names_of(const Folders& folders, const Digest& file) {
  const Descriptor opened(
      ::openat(folders.root->number(), names_file(file).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  std::array<char, kMaxNamesFile> bytes{};
  const ssize_t got = opened ? ::pread(opened.number(), bytes.data(), bytes.size(), 0) : -1;
  std::string_view text(bytes.data(), got > 0 ? static_cast<size_t>(got) : 0);
  std::vector<Name> names;
  for (size_t end; names.size() < kMaxNamesOfFile && (end = text.find('\n')) != text.npos; text.remove_prefix(end + 1))
    if (auto name = name_in(text.substr(0, end))) names.push_back(std::move(*name));
  return names;
}

bool is_kept(const Folders& folders, const Digest& file) {
  return std::ranges::any_of(names_of(folders, file), [](const Name& name) { return name.kind == NameKind::keeper; });
}

// Not written atomically: of a partial file, the complete lines are read.
void write_names(const Folders& folders, const Digest& file, const std::vector<Name>& names) {
  std::string text;
  size_t count = 0;
  for (auto name = names.rbegin(); name != names.rend() && count < kMaxNamesOfFile; ++name, ++count) {
    const std::string line = line_of(*name);
    if (text.size() + line.size() > kMaxNamesFile) break;
    text.insert(0, line);
  }
  if (text.empty()) text = "\n";  // touch_names() needs a byte
  const std::string path = names_file(file);
  const int root = folders.root->number();
  ::mkdirat(root, kNamesFolder, 0700);  // a failure shows when the file is created
  ::unlinkat(root, path.c_str(), 0);
  const Descriptor opened(::openat(root, path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (opened) std::ignore = write_fully(opened.number(), 0, std::as_bytes(std::span(text)));
}

void remove_names(const Folders& folders, const Digest& file) {
  if (!is_pinned(folders, file)) ::unlinkat(folders.root->number(), names_file(file).c_str(), 0);
}

// A file without a byte is just being created by another process.
bool touch_names(const Folders& folders, const Digest& file) {
  const std::string path = names_file(file);
  const Descriptor names(::openat(folders.root->number(), path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  std::array<std::byte, 1> first{};
  if (names && read_fully(names.number(), 0, first, "names")) std::ignore = write_fully(names.number(), 0, first);
  return names || errno != ENOENT;
}

bool remove_if_no_file(const Folders& folders, const Descriptor& folder, const std::string& path) {
  struct stat status {};
  if (::fstatat(folder.number(), path.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0 || S_ISREG(status.st_mode))
    return false;
  if (!S_ISDIR(status.st_mode)) return ::unlinkat(folder.number(), path.c_str(), 0) == 0;
  const std::string aside = kOddPrefix + random_hex();
  return ::renameat(folder.number(), path.c_str(), folders.making->number(), aside.c_str()) == 0;
}

bool has_blob(const Folders& folders, const Digest& digest) {
  struct stat status {};
  return ::fstatat(folders.blobs->number(), blob_file(digest).c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 ||
         errno != ENOENT;
}

Descriptor open_blob(const Folders& folders, const Digest& digest) {
  return Descriptor(
      ::openat(folders.blobs->number(), blob_file(digest).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
}

bool unlink_blob(const Folders& folders, const Digest& digest) {
  const bool gone = ::unlinkat(folders.blobs->number(), blob_file(digest).c_str(), 0) == 0;
  const int error = errno;
  if (gone || error == ENOENT) {
    ::unlinkat(folders.root->number(), sums_file(digest).c_str(), 0);
    remove_names(folders, digest);
  }
  errno = error;
  return gone;
}

std::string sums_file(const Digest& digest) { return fmt::format("{}/{}", kSumsFolder, digest.hex()); }

std::string blocks_file(const Digest& name) { return fmt::format("{}/{}", kBlocksFolder, name.hex()); }

bool has_blocks(const Folders& folders, const Digest& name) {
  struct stat status {};
  return ::fstatat(folders.root->number(), blocks_file(name).c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 ||
         errno != ENOENT;
}

store::CachedFiles open_blocks_files(const Folders& folders, const Digest& name, int mode) {
  return open_files(*folders.root, blocks_file(name), mode);
}

std::optional<uint64_t> remove_blocks(const Folders& folders, const Digest& name, BlockFile::Evict which) {
  const auto freed = BlockFile::evict(*folders.root, blocks_file(name), which);
  const int error = errno;
  if (freed) remove_names(folders, name);
  errno = error;
  return freed;
}

std::optional<std::string> link_target(const Descriptor& folder, const std::string& name) {
  std::array<char, 128> text{};
  const ssize_t got = ::readlinkat(folder.number(), name.c_str(), text.data(), text.size());
  return got < 0 ? std::nullopt : std::optional(std::string(text.data(), static_cast<size_t>(got)));
}

}  // namespace weightfs
