#include "cache/store/inventory.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <unordered_map>
#include <utility>

#include "base/files/confined_directory.h"
#include "base/files/file_io.h"
#include "base/os/descriptor.h"

namespace weightfs {
namespace {

using namespace store;

constexpr time_t kMinDeadLinkAge = 60;

// Digests of external files are computed again after this time: most of these files are gone by then.
constexpr time_t kMaxExternalAge = 90 * 24 * 3600;

// A file in the store.
struct Found {
  uint64_t on_disk;
  bool is_temporary = false;  // in making/, or a new blob
  std::optional<Item> item = {};
};

// The last use of a cached file that was written at this time: see touch_names().
timespec last_use(const Folders& folders, const Digest& file, timespec written) {
  struct stat names {};
  const std::string path = fmt::format("{}/{}", kNamesFolder, file.hex());
  if (::fstatat(folders.root->number(), path.c_str(), &names, AT_SYMLINK_NOFOLLOW) != 0) return written;
  return is_older(written, names.st_mtim) ? names.st_mtim : written;
}

// The item that a file in blobs/<two> is.
std::optional<Item> blob_item(const Folders& folders, const std::string& two, const std::string& name,
                              const struct stat& file) {
  const auto digest = digest_of_name(name);
  if (!digest || two != name.substr(0, 2) || !S_ISREG(file.st_mode)) return std::nullopt;
  return Item{.kind = ItemKind::blob,
              .digest = *digest,
              .name = *digest,
              .size = static_cast<uint64_t>(file.st_size),
              .on_disk = on_disk(file),
              .last_used = last_use(folders, *digest, file.st_mtim)};
}

// A file in blocks/. Data are an item, with their map; a blob that is being written is none, since nothing evicts it.
Found found_in_blocks(const Folders& folders, const std::string& name, const struct stat& file) {
  const auto digest = digest_of_name(name);
  if (!digest || !S_ISREG(file.st_mode)) return {on_disk(file)};
  const CachedFiles files = open_blocks_files(folders, *digest, O_RDONLY);
  struct stat map {};
  const bool has_map = files.map != nullptr && ::fstat(files.map->number(), &map) == 0;
  const auto header = has_map ? read_map_header(files.map->number()) : std::nullopt;
  if (header && is_new_blob(header->identity)) return {on_disk(file), true};
  const uint64_t space = on_disk(file) + (has_map ? on_disk(map) : 0);
  Item item{.kind = ItemKind::remote,
            .digest = *digest,
            .name = *digest,
            .size = space,
            .on_disk = space,
            .last_used = last_use(folders, *digest, file.st_mtim)};
  if (header) item.source = header->identity;
  if (const auto blob = digest_of_identity(item.source)) {
    item.kind = ItemKind::part;
    item.digest = *blob;
    item.size = 0;
    item.source.clear();
  }
  return {on_disk(file), false, std::move(item)};
}

// Calls `each` for every entry of the directory `name` in `folder` except `.` and `..`; never if it is missing or a
// symbolic link.
template <class Each>
void for_each_in(const Descriptor& folder, const std::string& name, const Each& each) {
  const Descriptor opened(::openat(folder.number(), name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
  const auto entries = opened ? entries_of(opened) : std::vector<DirectoryEntry>{};
  if (!entries) return;
  for (const DirectoryEntry& entry : *entries) each(entry.name);
}

// Calls `each` with the name and status of every file in the directory `name` in `folder`.
template <class Each>
void for_each_file(const Descriptor& folder, const std::string& name, const Each& each) {
  for_each_in(folder, name, [&](const std::string& file) {
    struct stat status {};
    if (::fstatat(folder.number(), fmt::format("{}/{}", name, file).c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0)
      each(file, status);
  });
}

// A blob that a killed process was writing; data in blocks/ without a map, or a map without data: a killed process, or
// an earlier version, has left them.
std::optional<Digest> left_file(const Folders& folders, const std::string& name) {
  const bool is_map = name.ends_with(kMapSuffix);
  const std::string data = is_map ? name.substr(0, name.size() - kMapSuffix.size()) : name;
  const std::string other = fmt::format("{}/{}", kBlocksFolder, is_map ? data : map_name(data));
  struct stat status {};
  const bool is_alone =
      ::fstatat(folders.root->number(), other.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0 && errno == ENOENT;
  const auto digest = digest_of_name(data);
  if (is_alone || is_map || !digest) return is_alone ? digest : std::nullopt;
  const CachedFiles files = open_blocks_files(folders, *digest, O_RDONLY);
  const auto header = files.map == nullptr ? std::nullopt : read_map_header(files.map->number());
  return header && is_new_blob(header->identity) && !BlockFile::is_in_use(files) ? digest : std::nullopt;
}

// Removes a file in making/, unless it is locked. Returns the freed disk space, or nothing.
std::optional<uint64_t> remove_unlocked(const Folders& folders, const std::string& file_name) {
  const Descriptor& making = *folders.making;
  const Descriptor file(::openat(making.number(), file_name.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat status {};
  if (!file || !try_lock(file.number()) || !is_same_file(making, file_name, file.number()) ||
      ::fstat(file.number(), &status) != 0)
    return std::nullopt;
  return ::unlinkat(making.number(), file_name.c_str(), 0) == 0 ? std::optional(on_disk(status)) : std::nullopt;
}

}  // namespace

GcResult sweep(const Folders& folders, time_t kept_since) {
  GcResult swept;
  for_each_in(*folders.making, ".", [&](const std::string& name) {
    if (name.starts_with(kOddPrefix) && ::unlinkat(folders.making->number(), name.c_str(), AT_REMOVEDIR) == 0) return;
    const auto freed = remove_unlocked(folders, name);
    swept.leftovers += freed.has_value();
    swept.bytes += freed.value_or(0);
  });
  for_each_file(*folders.root, kBlocksFolder, [&](const std::string& name, const struct stat& file) {
    const auto left = left_file(folders, name);
    const auto removed = left ? remove_blocks(folders, *left, BlockFile::Evict::left) : std::nullopt;
    swept.leftovers += removed.has_value();
    swept.bytes += removed.value_or(0);
    const bool may_be_old = !left && file.st_mtim.tv_sec < kept_since;
    const auto item = may_be_old ? found_in_blocks(folders, name, file).item : std::nullopt;
    const bool is_old = item && item->kind == ItemKind::part && item->last_used.tv_sec < kept_since;
    const auto freed = is_old ? remove_item(folders, *item) : std::nullopt;
    if (freed) swept.add(*item, *freed);
  });
  const int root = folders.root->number();
  for_each_in(*folders.root, kSumsFolder, [&](const std::string& name) {
    const auto digest = digest_of_name(name);
    if (!digest || !has_blob(folders, *digest)) ::unlinkat(root, fmt::format("{}/{}", kSumsFolder, name).c_str(), 0);
  });
  for_each_in(*folders.root, kListsFolder,
              [&](const std::string& name) { ::unlinkat(root, fmt::format("{}/{}", kListsFolder, name).c_str(), 0); });
  ::unlinkat(root, kListsFolder, AT_REMOVEDIR);
  for_each_in(*folders.root, kNamesFolder, [&](const std::string& name) {
    const auto file = digest_of_name(name);
    if (file && !has_blob(folders, *file) && !has_blocks(folders, *file)) remove_names(folders, *file);
  });
  return swept;
}

// Writers create the link before the blob: it may be dead for a moment, or the blob may just be produced again.
uint64_t unlink_dead_links(const Folders& folders, const std::set<Digest>& gone) {
  const Descriptor& index = *folders.index;
  const time_t old = ::time(nullptr) - kMinDeadLinkAge;
  const time_t outdated = ::time(nullptr) - kMaxExternalAge;
  uint64_t unlinked = 0;
  for_each_in(index, ".", [&](const std::string& link) {
    struct stat status {};
    const std::string target = link_target(index, link).value_or("");
    const auto digest = digest_of_hex(target);
    if (::fstatat(index.number(), link.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) return;
    const bool is_dead =
        digest && (gone.contains(*digest) || status.st_mtim.tv_sec < old) && !has_blob(folders, *digest);
    const bool is_outdated = target.starts_with(kExternalDigest) && status.st_mtim.tv_sec < outdated;
    if (is_dead || is_outdated) unlinked += ::unlinkat(index.number(), link.c_str(), 0) == 0;
  });
  return unlinked;
}

// In the order in which a download moves, so that a blob published meanwhile is not missed. It may be found twice: its
// last place counts.
Result<Inventory> store::scan_inventory(const Folders& folders) {
  std::set<Digest> pinned = TRY(pins(folders));
  std::unordered_map<ino_t, Found> files;
  std::map<Digest, uint64_t> beside_blobs;  // disk space of checksums
  for_each_file(*folders.root, kBlocksFolder, [&](const std::string& name, const struct stat& file) {
    files[file.st_ino] = found_in_blocks(folders, name, file);
  });
  for_each_file(*folders.making, ".", [&](const std::string&, const struct stat& file) {
    files[file.st_ino] = {on_disk(file), S_ISREG(file.st_mode)};
  });
  for_each_in(*folders.blobs, ".", [&](const std::string& two) {
    for_each_file(*folders.blobs, two, [&](const std::string& name, const struct stat& file) {
      files[file.st_ino] = {on_disk(file), false, blob_item(folders, two, name, file)};
    });
  });
  for_each_file(*folders.index, ".",
                [&](const std::string&, const struct stat& file) { files[file.st_ino] = {on_disk(file)}; });
  for (const char* const folder : {kSumsFolder, kNamesFolder})
    for_each_file(*folders.root, folder, [&](const std::string& name, const struct stat& file) {
      files[file.st_ino] = {on_disk(file)};
      if (const auto blob = digest_of_name(name); blob && folder != kNamesFolder) beside_blobs[*blob] += on_disk(file);
    });
  Inventory inventory;
  std::set<Digest> found;  // of the pinned ones
  for (auto& [inode, file] : files) {
    inventory.on_disk += file.on_disk;
    inventory.temporary_files += file.is_temporary;
    if (!file.item) continue;
    Item& item = inventory.items.emplace_back(std::move(*file.item));
    item.pinned = item.kind != ItemKind::part && pinned.contains(item.digest);
    if (item.pinned) found.insert(item.digest);
    if (item.kind == ItemKind::blob) item.on_disk += beside_blobs[item.digest];
  }
  for (const Digest& digest : found) pinned.erase(digest);
  for (const Digest& digest : pinned)
    inventory.items.push_back({.kind = ItemKind::absent, .digest = digest, .name = digest, .pinned = true});
  return inventory;
}

void GcResult::add(const Item& item, uint64_t freed) {
  if (item.kind == ItemKind::blob)
    ++(is_record(item) ? records : blobs);
  else
    ++(item.kind == ItemKind::part ? partial : remotes);
  bytes += freed;
}

bool store::is_record(const Item& item) {
  return std::ranges::any_of(item.names, [](const Name& name) { return name.kind == NameKind::record; });
}

std::optional<uint64_t> store::remove_item(const Folders& folders, const Item& item) {
  if (item.kind != ItemKind::blob) return remove_blocks(folders, item.name, BlockFile::Evict::unheld);
  return unlink_blob(folders, item.digest) ? std::optional(item.on_disk) : std::nullopt;
}

}  // namespace weightfs
