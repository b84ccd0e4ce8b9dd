#include "cache/maintenance.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>

#include "base/os/descriptor.h"
#include "base/os/system_error.h"
#include "base/text.h"
#include "cache/disk_quota.h"
#include "cache/store/quota_ledger.h"

namespace weightfs {
namespace {

using namespace store;

constexpr size_t kMinDigits = 6;

// A dead link may precede its blob, because writers create the link first.
constexpr time_t kMinDeadLinkAge = 60;

// Commands wait for the lock as long as a BlobStore does.

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

// Hashes blobs and compares them with their names.
class Verifier {
 public:
  Verifier(const Folders& folders, uint64_t total, const std::function<void(const VerifyProgress&)>& report)
      : folders_(folders), total_(total), report_(report), buffer_(1 << 20) {}

  void verify(const Digest& digest) {
    const Descriptor file = open_blob(folders_, digest);
    if (file.number() < 0 && errno == ENOENT) return;  // evicted meanwhile
    const auto found = file.number() < 0 ? failure(io_error(digest.hex())) : digest_of(file.number(), digest);
    if (!found) {
      result_.unreadable.push_back(found.error());
    } else if (*found == digest) {
      ++result_.valid;
    } else {
      remove(digest, file.number(), *found);
    }
  }

  VerifyResult result() { return std::move(result_); }
  const std::set<std::string>& removed_digests() const { return removed_digests_; }

 private:
  Result<Digest> digest_of(int fd, const Digest& name) {
    Sha256 hash;
    for (uint64_t offset = 0;;) {
      if (report_) report_({name, result_.bytes, total_});
      const ssize_t got = ::pread(fd, buffer_.data(), buffer_.size(), static_cast<off_t>(offset));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return failure(io_error(name.hex()));
      if (got == 0) return hash.finish();
      hash.update(std::span(buffer_).first(static_cast<size_t>(got)));
      offset += static_cast<size_t>(got);
      result_.bytes += static_cast<size_t>(got);
    }
  }

  // The blob may have been replaced meanwhile, which is another file. If it is removed in spite of that (a race), it is
  // only produced again.
  void remove(const Digest& digest, int fd, const Digest& found) {
    const std::string line = fmt::format("{}: digest mismatch: found {}", digest.hex(), found.hex());
    if (!is_same_file(*folders_.blobs, blob_file(digest), fd)) {
      result_.mismatched.push_back(line + "; already removed");
    } else if (unlink_blob(folders_, digest) || errno == ENOENT) {
      removed_digests_.insert(digest.hex());
      result_.mismatched.push_back(line + "; removed");
    } else {
      result_.mismatched.push_back(fmt::format("{}; {}", line, io_error("cannot be removed").message));
    }
  }

  const Folders& folders_;
  const uint64_t total_;
  const std::function<void(const VerifyProgress&)>& report_;
  std::vector<std::byte> buffer_;
  VerifyResult result_;
  std::set<std::string> removed_digests_;
};

// Removes an item and its pin, and returns the freed disk space. Fails with the reason why it is kept; with not_found
// if a blob is gone already.
Result<uint64_t> try_remove(const Folders& folders, const Item& item, PinnedBlobs pinned) {
  if (item.pinned && pinned == PinnedBlobs::keep) return failure(Code::unsupported, "is pinned");
  if (item.pinned) TRY(remove_pin(folders, item.digest));
  if (const auto freed = remove_item(folders, item)) return *freed;
  if (errno == EBUSY) return failure(Code::resource, "is being downloaded");
  if (errno == ENOENT && item.kind == ItemKind::blob) return failure(Code::not_found, "evicted");
  return failure(io_error("cannot be removed"));
}

// Removes links to blobs that do not exist. If a writer uses such a link now, its blob is only produced once more.
uint64_t unlink_dead_links(const Folders& folders) {
  const Descriptor& index = *folders.index;
  std::set<std::string> removed_digests;
  for_each_in(index, ".", [&](const std::string& link) {
    struct stat status {};
    const auto digest = digest_in_link(index, link);
    if (!digest || has_blob(folders, *digest)) return;
    if (::fstatat(index.number(), link.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) return;
    if (status.st_mtim.tv_sec < ::time(nullptr) - kMinDeadLinkAge) removed_digests.insert(digest->hex());
  });
  return unlink_links_to(folders, removed_digests);
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
  std::set<std::string> matches;
  for (const Item& item : inventory.items)
    if (item.digest.hex().starts_with(prefix)) matches.insert(item.digest.hex());
  if (matches.empty()) return failure(Code::not_found, fmt::format("{}: not in the cache", prefix));
  if (matches.size() > 1)
    return failure(Code::not_found, fmt::format("{}: {} digests have this prefix", prefix, matches.size()));
  return *digest_of_hex(*matches.begin());
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

Result<VerifyResult> CacheMaintenance::verify(const std::function<void(const VerifyProgress&)>& report) const {
  const FoldersPtr folders = TRY(this->folders());
  if (!folders) return VerifyResult{};
  const Inventory inventory = TRY(this->inventory());
  uint64_t total = 0;
  for (const Item& item : inventory.items) total += item.kind == ItemKind::blob ? item.size : 0;
  Verifier verifier(*folders, total, report);
  for (const Item& item : inventory.items)
    if (item.kind == ItemKind::blob) verifier.verify(item.digest);
  unlink_links_to(*folders, verifier.removed_digests());
  if (!verifier.removed_digests().empty()) recount(*folders);
  return verifier.result();
}

Result<GcResult> CacheMaintenance::collect(std::optional<uint64_t> max_bytes) const {
  const FoldersPtr folders = TRY(this->folders());
  if (!folders) return GcResult{};
  GcResult result;
  const Inventory before = TRY(scan_inventory(*folders));
  for (const Item& item : before.items)
    if (const auto freed = item.kind == ItemKind::part ? remove_item(*folders, item) : std::nullopt)
      result.add(item.kind, *freed);
  const GcResult swept = sweep(*folders);
  result.leftovers = swept.leftovers + unlink_dead_links(*folders);
  const GcResult evicted = TRY(shrink(*folders, max_bytes.value_or(UINT64_MAX)));
  result.blobs = evicted.blobs;
  result.partial += evicted.partial;
  result.remotes = evicted.remotes;
  result.bytes += swept.bytes + evicted.bytes;
  const Inventory after = TRY(scan_inventory(*folders));
  if (max_bytes && after.on_disk > *max_bytes)
    result.not_removed.push_back(
        fmt::format("cache still uses {}: the remaining blobs are pinned or being written", human_size(after.on_disk)));
  return result;
}

Result<GcResult> CacheMaintenance::remove(const std::function<bool(const Digest&)>& selects, PinnedBlobs pinned) const {
  const FoldersPtr folders = TRY(this->folders());
  if (!folders) return GcResult{};
  GcResult result;
  {
    const QuotaLedger ledger = TRY(QuotaLedger::lock(*folders, {}));  // so that nothing is pinned meanwhile
    const Inventory inventory = TRY(scan_inventory(*folders));
    std::set<std::string> gone;
    for (const Item& item : inventory.items) {
      if (item.kind == ItemKind::absent || !selects(item.digest)) continue;
      const auto freed = try_remove(*folders, item, pinned);
      if (freed) {
        result.add(item.kind, *freed);
        if (item.kind == ItemKind::blob) gone.insert(item.digest.hex());
      } else if (freed.error().code != Code::not_found) {
        result.not_removed.push_back(fmt::format("{}: {}", item.digest.hex(), freed.error().message));
      }
    }
    unlink_links_to(*folders, gone);
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
