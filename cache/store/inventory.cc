#include "cache/store/inventory.h"

#include <fcntl.h>
#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <unordered_map>

#include "base/os/descriptor.h"
#include "base/text.h"
#include "cache/store/block_file.h"

namespace weightfs::store {
namespace {

// The digest of blobs/<two>/<name>; nothing for other names.
std::optional<Digest> digest_of_blob(const std::string& two, const std::string& name) {
  const auto digest = digest_of_hex(name);
  return digest && blob_file(*digest) == fmt::format("{}/{}", two, name) ? digest : std::nullopt;
}

class Scanner {
 public:
  Scanner(const Folders& folders, std::set<std::string> pins) : folders_(folders), pins_(std::move(pins)) {}

  // In the order in which a download moves, so that a blob published meanwhile is not missed.
  Inventory scan() {
    const Descriptor& blobs = *folders_.blobs;
    for_each_in(*folders_.root, kBlocksFolder, [&](const std::string& name) { blocks(name); });
    for_each_in(*folders_.making, ".", [&](const std::string& name) { making(name); });
    for_each_in(blobs, ".", [&](const std::string& two) {
      for_each_in(blobs, two, [&](const std::string& name) { blob(two, name); });
    });
    for_each_in(*folders_.index, ".", [&](const std::string& name) { count(*folders_.index, name); });
    for (const char* const folder : {kSumsFolder, kListsFolder})
      for_each_in(*folders_.root, folder,
                  [&](const std::string& name) { count(*folders_.root, fmt::format("{}/{}", folder, name)); });
    for (const std::string& hex : pins_) {
      const Digest digest = *digest_of_hex(hex);
      inventory_.items.push_back({.kind = ItemKind::absent, .digest = digest, .name = digest, .pinned = true});
    }
    return std::move(inventory_);
  }

 private:
  // Counts the file; false when it no longer exists.
  bool count(const Descriptor& folder, const std::string& path) {
    if (::fstatat(folder.number(), path.c_str(), &file_, AT_SYMLINK_NOFOLLOW) != 0) return false;
    inventory_.on_disk += on_disk(file_);
    return true;
  }

  void blob(const std::string& two, const std::string& name) {
    if (!count(*folders_.blobs, fmt::format("{}/{}", two, name)) || !S_ISREG(file_.st_mode)) return;
    const auto digest = digest_of_blob(two, name);
    if (!digest) return;
    forget_counted();
    const bool pinned = pins_.erase(name) > 0;
    inventory_.items.push_back({ItemKind::blob, *digest, *digest, static_cast<uint64_t>(file_.st_size),
                                on_disk(file_) + list_on_disk(*digest), file_.st_mtim, pinned});
  }

  uint64_t list_on_disk(const Digest& digest) const {
    struct stat list {};
    return ::fstatat(folders_.root->number(), list_file(digest).c_str(), &list, AT_SYMLINK_NOFOLLOW) == 0
               ? on_disk(list)
               : 0;
  }

  // The file was counted elsewhere before it was moved.
  void forget_counted() {
    const auto counted = counted_.extract(file_.st_ino);
    if (!counted) return;
    inventory_.on_disk -= std::min(inventory_.on_disk, counted.mapped().on_disk);
    if (!counted.mapped().blocks)
      --inventory_.temporary_files;
    else
      std::erase_if(inventory_.items, [&](const Item& item) { return item.name == counted.mapped().blocks; });
  }

  void blocks(const std::string& name) {
    const auto digest = digest_of_hex(name);
    if (!digest || !count(*folders_.root, blocks_file(*digest)) || !S_ISREG(file_.st_mode)) return;
    const Descriptor file = open_blocks_file(folders_, *digest, O_RDONLY);
    counted_.emplace(file_.st_ino, Counted{on_disk(file_), digest});
    const std::string identity = BlockFile::identity_of(file.number()).value_or("");
    const uint64_t bytes = on_disk(file_);
    if (const auto blob = digest_of_identity(identity))
      inventory_.items.push_back({ItemKind::part, *blob, *digest, 0, bytes, file_.st_mtim});
    else
      inventory_.items.push_back(
          {ItemKind::remote, *digest, *digest, bytes, bytes, file_.st_mtim, false, false, identity});
  }

  void making(const std::string& name) {
    if (!count(*folders_.making, name) || !S_ISREG(file_.st_mode)) return;
    forget_counted();
    counted_.emplace(file_.st_ino, Counted{on_disk(file_), {}});
    ++inventory_.temporary_files;
  }

  struct Counted {
    uint64_t on_disk;
    std::optional<Digest> blocks;  // the name in blocks/; nothing for a file in making/
  };

  const Folders& folders_;
  std::set<std::string> pins_;                  // of blobs not found yet
  std::unordered_map<ino_t, Counted> counted_;  // files in blocks/ and making/
  Inventory inventory_;
  struct stat file_ {};  // the last counted file
};

}  // namespace

Result<Inventory> scan_inventory(const Folders& folders) {
  std::set<std::string> pinned = TRY(pins(folders));
  return Scanner(folders, std::move(pinned)).scan();
}

std::optional<uint64_t> remove_item(const Folders& folders, const Item& item) {
  if (item.kind != ItemKind::blob) return remove_blocks(folders, item.name, BlockFile::Held::keep);
  return unlink_blob(folders, item.digest) ? std::optional(item.on_disk) : std::nullopt;
}

}  // namespace weightfs::store
