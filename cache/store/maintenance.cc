#include "cache/maintenance.h"

#include <fcntl.h>
#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <set>

#include "base/files/file_io.h"
#include "base/os/descriptor.h"
#include "base/os/system_error.h"
#include "base/text.h"
#include "cache/disk_quota.h"
#include "cache/store/file_range.h"

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

// Hashes a blob's file, and calls `report` with the number of bytes of each piece.
Result<Digest> digest_of_file(SharedDescriptor file, const std::function<void(uint64_t)>& report) {
  struct stat status {};
  if (::fstat(file->number(), &status) != 0) return failure(io_error(std::string(kCachedBlob)));
  const FileRange bytes(std::move(file), static_cast<uint64_t>(status.st_size));
  return sha256(bytes, [&](std::span<const std::byte> piece) { report(piece.size()); });
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
  if (const auto freed = remove_item(folders, item)) {
    if (item.pinned) TRY(remove_pin(folders, item.digest));
    return *freed;
  }
  if (errno == EBUSY) return failure(Code::resource, "is being downloaded");
  if (errno == ENOENT) return failure(Code::not_found, "evicted");
  return failure(io_error("cannot be removed"));
}

// For messages: the URL of a remote file, the digest of a blob.
std::string label_of(const Item& item) {
  return item.source.empty() ? item.digest.hex() : printable(item.source.substr(0, item.source.find(' ')));
}

// Compares cached files one after another.
class CacheVerifier {
 public:
  CacheVerifier(const Folders& folders, const VerifyProgress& report) : folders_(folders), report_(report) {}

  void expect(const Item& item) { total_ += item.kind == ItemKind::absent ? 0 : item.size; }

  void compare(const Item& item) {
    if (item.kind == ItemKind::blob) compare_blob(item);
    if (item.kind == ItemKind::part || item.kind == ItemKind::remote) compare_blocks(item);
  }

  VerifyResult finish() && {
    if (!mismatched_.empty()) unlink_dead_links(folders_, mismatched_);
    return std::move(result_);
  }

 private:
  std::function<void(uint64_t)> progress_of(const Item& item) {
    return [&](uint64_t bytes) {
      done_ += bytes;
      if (report_) report_(item.digest, done_, total_);
    };
  }

  VerifyResult::Count& count_of(const Item& item) {
    if (is_record(item)) return result_.records;
    const auto is_member = [](const Name& name) { return name.kind == NameKind::member; };
    return std::ranges::any_of(item.names, is_member) ? result_.decoded : result_.blobs;
  }

  void compare_blob(const Item& item) {
    const std::string name = item.digest.hex();
    const auto file = std::make_shared<const Descriptor>(open_blob(folders_, item.digest));
    if (!*file && errno == ENOENT) return;  // evicted meanwhile
    VerifyResult::Count& count = count_of(item);
    uint64_t bytes = 0;
    const auto advance = [&, report = progress_of(item)](uint64_t more) {
      bytes += more;
      report(more);
    };
    const auto found = *file ? digest_of_file(file, advance) : failure(io_error("cannot open the file"));
    ++count.all;
    if (!found) {
      result_.unreadable.push_back({found.error().code, fmt::format("{}: {}", name, found.error().message)});
      return;
    }
    count.bytes += bytes;
    if (*found == item.digest) {
      ++count.valid;
      return;
    }
    const std::string done = remove_mismatched(folders_, item.digest, file->number());
    result_.mismatched.push_back(fmt::format("{}: digest mismatch: found {}; {}", name, found->hex(), done));
    mismatched_.insert(item.digest);
  }

  void compare_blocks(const Item& item) {
    const std::string name = label_of(item);
    const CachedFiles files = open_blocks_files(folders_, item.name, O_RDWR);
    if (files.map == nullptr && errno == ENOENT) return;  // evicted, or published as a blob, meanwhile
    const auto blocks = files.map ? BlockFile::of_files(files) : failure(io_error(name));
    const bool is_unnamed =
        blocks ? sha256((*blocks)->identity()) != item.name : blocks.error().code == Code::not_found;
    if (is_unnamed) return remove_unnamed(item, *files.map);
    if (!blocks) return result_.unreadable.push_back(blocks.error());
    const BlockFile::Compared compared = (*blocks)->drop_damaged(progress_of(item));
    ++result_.ranged_files;
    result_.blocks.valid += compared.blocks;
    result_.blocks.all += compared.blocks + compared.damaged;
    result_.blocks.bytes += compared.bytes;
    if (compared.damaged > 0)
      result_.mismatched.push_back(fmt::format("{}: {} of {} cached blocks do not match their checksums; dropped", name,
                                               compared.damaged, compared.blocks + compared.damaged));
    if (!compared.result && compared.result.error().code != Code::not_found)
      result_.unreadable.push_back(
          {compared.result.error().code, fmt::format("{}: {}", name, compared.result.error().message)});
  }

  // A file that no reader finds, unless a process is just creating or publishing it.
  void remove_unnamed(const Item& item, const Descriptor& map) {
    struct stat status {};
    if (::fstat(map.number(), &status) != 0 || status.st_size == 0 || !remove_item(folders_, item)) return;
    result_.mismatched.push_back(fmt::format("{}: cached ranges without a valid header; removed", item.name.hex()));
  }

  const Folders& folders_;
  const VerifyProgress& report_;
  uint64_t done_ = 0;
  uint64_t total_ = 0;
  VerifyResult result_;
  std::set<Digest> mismatched_;
};

}  // namespace

Usage usage_of(const Inventory& inventory) {
  Usage usage;
  const auto add = [](uint64_t& count, uint64_t& bytes, const Item& item) {
    ++count;
    bytes += item.on_disk - item.reserved;
  };
  for (const Item& item : inventory.items) {
    usage.reserved_bytes += item.reserved;
    if (item.kind == ItemKind::blob && is_record(item))
      add(usage.records, usage.record_bytes, item);
    else if (item.kind == ItemKind::blob)
      add(usage.blobs, usage.blob_bytes, item);
    if (item.kind != ItemKind::absent && item.pinned) add(usage.pinned, usage.pinned_bytes, item);
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

// "hf://org/model" is also a name of what "hf://org/model/weights" uses, and of members of that.
std::vector<Digest> resolve_name(const Inventory& inventory, const std::string& name) {
  const auto matches = [&](const Name& each) {
    if (each.kind == NameKind::record || each.kind == NameKind::keeper || !each.text.starts_with(name)) return false;
    const std::string_view rest = std::string_view(each.text).substr(name.size());
    return rest.empty() || name.ends_with('/') || rest.starts_with('/') || rest.starts_with('@') ||
           rest.starts_with(": ");
  };
  std::vector<Digest> found;
  for (const Item& item : inventory.items)
    if (std::ranges::any_of(item.names, matches)) found.push_back(item.digest);
  return found;
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
    item.names = names_of(*folders, item.name);
    if (item.kind != ItemKind::part && item.kind != ItemKind::remote) continue;
    const CachedFiles files = open_blocks_files(*folders, item.name, O_RDWR);
    if (files.map == nullptr) continue;
    item.size = BlockFile::present_bytes(files);
    item.reserved = std::min(item.on_disk, BlockFile::reserved_bytes(files));
    item.is_active = item.kind == ItemKind::part && BlockFile::is_held(files);
  }
  std::stable_sort(inventory.items.begin(), inventory.items.end(), [](const Item& a, const Item& b) {
    return a.kind != b.kind ? a.kind < b.kind : is_older(b.last_used, a.last_used);
  });
  return inventory;
}

Result<VerifyResult> CacheMaintenance::verify(const VerifyProgress& report) const {
  const FoldersPtr folders = TRY(this->folders());
  if (!folders) return VerifyResult{};
  const std::vector<Item> items = TRY(this->inventory()).items;
  CacheVerifier verifier(*folders, report);
  for (const Item& item : items) verifier.expect(item);
  for (const Item& item : items) verifier.compare(item);
  VerifyResult result = std::move(verifier).finish();
  if (!result.mismatched.empty()) recount(*folders);
  return result;
}

Result<GcResult> CacheMaintenance::collect(std::optional<uint64_t> max_bytes) const {
  const FoldersPtr folders = TRY(this->folders());
  if (!folders) return GcResult{};
  GcResult result = sweep(*folders, std::numeric_limits<time_t>::max());
  result.leftovers += unlink_dead_links(*folders, {});
  const GcResult evicted = TRY(shrink(*folders, max_bytes.value_or(UINT64_MAX)));
  result.blobs = evicted.blobs;
  result.records = evicted.records;
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
    Inventory inventory = TRY(scan_inventory(*folders));
    std::set<Digest> gone;
    for (Item& item : inventory.items) {
      if (item.kind == ItemKind::absent || !selects(item.digest)) continue;
      item.names = names_of(*folders, item.name);
      const auto freed = try_remove(*folders, item, pinned);
      if (freed) {
        result.add(item, *freed);
        if (item.kind == ItemKind::blob) gone.insert(item.digest);
      } else if (freed.error().code != Code::not_found) {
        result.not_removed.push_back(fmt::format("{}: {}", label_of(item), freed.error().message));
      }
    }
    unlink_dead_links(*folders, gone);
  }
  recount(*folders);
  return result;
}

Result<GcResult> CacheMaintenance::remove(const std::vector<Digest>& digests, PinnedBlobs pinned) const {
  const std::set<Digest> selected(digests.begin(), digests.end());
  return remove([&](const Digest& digest) { return selected.contains(digest); }, pinned);
}

Result<GcResult> CacheMaintenance::remove_all(PinnedBlobs pinned) const {
  return remove([](const Digest&) { return true; }, pinned);
}

// Holds the lock like eviction, so that the blob still exists after pinning.
Result<bool> CacheMaintenance::pin(const Digest& digest) const {
  const FoldersPtr folders = TRY(this->folders());
  if (!folders) return failure(Code::not_found, fmt::format("{}: the cache is empty", digest.hex()));
  const QuotaLedger ledger = TRY(QuotaLedger::lock(*folders, {}));
  if (!has_blob(*folders, digest) && !has_blocks(*folders, digest))
    return failure(Code::not_found, fmt::format("{}: not in the cache", digest.hex()));
  return add_pin(*folders, digest);
}

Result<bool> CacheMaintenance::unpin(const Digest& digest) const {
  const FoldersPtr folders = TRY(this->folders());
  return folders ? remove_pin(*folders, digest) : false;
}

}  // namespace weightfs
