#include "cache/maintenance.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>

#include "base/os/descriptor.h"
#include "base/os/system_error.h"
#include "base/text.h"
#include "cache/disk_quota.h"

namespace weightfs {
namespace {

using namespace store;

constexpr size_t kMinDigits = 6;

// Lower case, without "sha256:"; empty when it is not a digest or its prefix.
std::string digest_prefix(std::string_view text) {
  for (const std::string_view prefix : {"sha256:", "sha256-"})
    if (text.starts_with(prefix)) text.remove_prefix(prefix.size());
  if (text.size() < kMinDigits || text.size() > 64) return "";
  const auto filled = digest_of_hex(std::string(text) + std::string(64 - text.size(), '0'));
  return filled ? filled->hex().substr(0, text.size()) : "";
}

// Corrects the ledger after removals. If another process holds the lock, the next reservation corrects it.
void recount(const Folders& folders) { std::ignore = shrink(folders, UINT64_MAX); }

// Hashes a file, and calls `report` with the number of bytes of each piece.
Result<Digest> digest_of_file(int fd, const std::string& name, const std::function<void(uint64_t)>& report) {
  std::vector<std::byte> buffer(1 << 20);
  Sha256 hash;
  for (uint64_t offset = 0;;) {
    const ssize_t got = ::pread(fd, buffer.data(), buffer.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return failure(io_error(name));
    if (got == 0) return hash.finish();
    hash.update(std::span(buffer).first(static_cast<size_t>(got)));
    offset += static_cast<uint64_t>(got);
    report(static_cast<uint64_t>(got));
  }
}

// Removes a blob whose file, open as `fd`, does not match its name; returns what was done. The blob may have been
// replaced meanwhile, which is another file. If it is removed in spite of that (a race), it is only produced again.
std::string remove_mismatched(const Folders& folders, const Digest& digest, int fd) {
  if (!is_same_file(*folders.blobs, blob_file(digest), fd)) return "already removed";
  if (unlink_blob(folders, digest) || errno == ENOENT) return "removed";
  return io_error("cannot be removed").message;
}

// Removes an item and its pin, and returns the freed disk space. Fails with the reason why it is kept; with not_found
// if it is gone already.
Result<uint64_t> try_remove(const Folders& folders, const Item& item, PinnedBlobs pinned) {
  if (item.pinned && pinned == PinnedBlobs::keep) return failure(Code::unsupported, "is pinned");
  if (item.pinned) TRY(remove_pin(folders, item.digest));
  if (const auto freed = remove_item(folders, item)) return *freed;
  if (errno == EBUSY) return failure(Code::resource, "is being downloaded");
  if (errno == ENOENT) return failure(Code::not_found, "evicted");
  return failure(io_error("cannot be removed"));
}

}  // namespace

Usage usage_of(const Inventory& inventory) {
  Usage usage;
  const auto add = [](uint64_t& count, uint64_t& bytes, const Item& item) {
    ++count;
    bytes += item.on_disk;
  };
  for (const Item& item : inventory.items) {
    if (item.kind == ItemKind::blob) add(usage.blobs, usage.blob_bytes, item);
    if (item.kind == ItemKind::blob && item.pinned) add(usage.pinned, usage.pinned_bytes, item);
    if (item.kind == ItemKind::part) add(usage.partial, usage.partial_bytes, item);
    if (item.kind == ItemKind::remote) add(usage.remotes, usage.remote_bytes, item);
  }
  usage.all_bytes = inventory.on_disk;
  return usage;
}

bool is_digest_prefix(std::string_view text) { return !digest_prefix(text).empty(); }

Result<Digest> resolve_digest_prefix(const Inventory& inventory, const std::string& text) {
  const std::string prefix = digest_prefix(text);
  if (prefix.empty())
    return failure(Code::not_found, fmt::format("{} is not a digest: 6 to 64 hex digits expected", quoted(text)));
  std::set<Digest> matches;
  for (const Item& item : inventory.items)
    if (item.digest.hex().starts_with(prefix)) matches.insert(item.digest);
  if (matches.empty()) return failure(Code::not_found, fmt::format("{}: not in the cache", prefix));
  if (matches.size() > 1)
    return failure(Code::not_found, fmt::format("{}: {} digests have this prefix", prefix, matches.size()));
  return *matches.begin();
}

// Null when there is no cache.
Result<FoldersPtr> CacheMaintenance::folders() const {
  auto folders = open_folders(directory_, Missing::fail);
  if (!folders && folders.error().code == Code::not_found) return nullptr;
  return folders;
}

Result<Inventory> CacheMaintenance::inventory() const {
  const FoldersPtr folders = TRY(this->folders());
  if (!folders) return Inventory{};
  Inventory inventory = TRY(scan_inventory(*folders));
  for (Item& item : inventory.items) {
    if (item.kind != ItemKind::part) continue;
    const Descriptor file = open_blocks_file(*folders, item.name, O_RDWR);
    if (!file) continue;
    item.size = BlockFile::present_bytes(file.number());
    item.is_active = BlockFile::is_held(file.number());
  }
  std::stable_sort(inventory.items.begin(), inventory.items.end(), [](const Item& a, const Item& b) {
    return a.kind != b.kind ? a.kind < b.kind : is_older(b.last_used, a.last_used);
  });
  return inventory;
}

Result<VerifyResult> CacheMaintenance::verify(const VerifyProgress& report) const {
  const FoldersPtr folders = TRY(this->folders());
  if (!folders) return VerifyResult{};
  std::vector<Item> items = TRY(this->inventory()).items;
  std::erase_if(items, [](const Item& item) { return item.kind != ItemKind::blob; });
  uint64_t total = 0;
  for (const Item& item : items) total += item.size;
  VerifyResult result;
  std::set<Digest> mismatched;
  for (const Item& item : items) {
    const std::string name = item.digest.hex();
    const auto advance = [&](uint64_t bytes) {
      result.bytes += bytes;
      if (report) report(item.digest, result.bytes, total);
    };
    const Descriptor file = open_blob(*folders, item.digest);
    if (!file && errno == ENOENT) continue;  // evicted meanwhile
    const auto found = file ? digest_of_file(file.number(), name, advance) : failure(io_error(name));
    if (!found) {
      result.unreadable.push_back(found.error());
    } else if (*found == item.digest) {
      ++result.valid;
    } else {
      const std::string done = remove_mismatched(*folders, item.digest, file.number());
      result.mismatched.push_back(fmt::format("{}: digest mismatch: found {}; {}", name, found->hex(), done));
      mismatched.insert(item.digest);
    }
  }
  if (mismatched.empty()) return result;
  unlink_dead_links(*folders, mismatched);
  recount(*folders);
  return result;
}

Result<GcResult> CacheMaintenance::collect(std::optional<uint64_t> max_bytes) const {
  const FoldersPtr folders = TRY(this->folders());
  if (!folders) return GcResult{};
  GcResult result = sweep(*folders, std::numeric_limits<time_t>::max());
  result.leftovers += unlink_dead_links(*folders, {});
  const GcResult evicted = TRY(shrink(*folders, max_bytes.value_or(UINT64_MAX)));
  result.blobs = evicted.blobs;
  result.partial += evicted.partial;
  result.remotes = evicted.remotes;
  result.bytes += evicted.bytes;
  if (!max_bytes) return result;
  const uint64_t left = TRY(scan_inventory(*folders)).on_disk;
  if (left > *max_bytes)
    result.not_removed.push_back(
        fmt::format("cache still uses {}: the remaining blobs are pinned or being written", human_size(left)));
  return result;
}

Result<GcResult> CacheMaintenance::remove(const std::function<bool(const Digest&)>& selects, PinnedBlobs pinned) const {
  const FoldersPtr folders = TRY(this->folders());
  if (!folders) return GcResult{};
  GcResult result;
  {
    const QuotaLedger ledger = TRY(QuotaLedger::lock(*folders, {}));  // so that nothing is pinned meanwhile
    const Inventory inventory = TRY(scan_inventory(*folders));
    std::set<Digest> gone;
    for (const Item& item : inventory.items) {
      if (item.kind == ItemKind::absent || !selects(item.digest)) continue;
      const auto freed = try_remove(*folders, item, pinned);
      if (freed) {
        result.add(item.kind, *freed);
        if (item.kind == ItemKind::blob) gone.insert(item.digest);
      } else if (freed.error().code != Code::not_found) {
        result.not_removed.push_back(fmt::format("{}: {}", item.digest.hex(), freed.error().message));
      }
    }
    unlink_dead_links(*folders, gone);
  }
  recount(*folders);
  return result;
}

Result<GcResult> CacheMaintenance::remove(const std::vector<Digest>& digests, PinnedBlobs pinned) const {
  return remove(
      [&](const Digest& digest) { return std::find(digests.begin(), digests.end(), digest) != digests.end(); }, pinned);
}

Result<GcResult> CacheMaintenance::remove_all(PinnedBlobs pinned) const {
  return remove([](const Digest&) { return true; }, pinned);
}

// Holds the lock like eviction, so that the blob still exists after pinning.
Result<bool> CacheMaintenance::pin(const Digest& digest) const {
  const FoldersPtr folders = TRY(this->folders());
  if (!folders) return failure(Code::not_found, fmt::format("{}: the cache is empty", digest.hex()));
  const QuotaLedger ledger = TRY(QuotaLedger::lock(*folders, {}));
  if (!has_blob(*folders, digest)) return failure(Code::not_found, fmt::format("{}: not in the cache", digest.hex()));
  return add_pin(*folders, digest);
}

Result<bool> CacheMaintenance::unpin(const Digest& digest) const {
  const FoldersPtr folders = TRY(this->folders());
  return folders ? remove_pin(*folders, digest) : false;
}

}  // namespace weightfs
