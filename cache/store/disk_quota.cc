#include "cache/disk_quota.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <string_view>
#include <thread>
#include <utility>

#include "base/cancel.h"
#include "base/files/file_io.h"
#include "base/os/system_error.h"
#include "base/text.h"

namespace weightfs {
namespace {

using namespace store;

constexpr size_t kDigits = 20;  // of 2^64

// The holder of the lock scans all files at worst.
constexpr std::chrono::seconds kMaxLockWait{2};
constexpr std::chrono::milliseconds kLockPollInterval{5};

constexpr uint64_t kDiskBlock = 4096;

// A link in the index: ext4 stores long targets in a block.
constexpr uint64_t kLink = kDiskBlock;

// Includes index links that will be created for blobs that are being written.
uint64_t counted_bytes(const Inventory& inventory) { return inventory.on_disk + inventory.temporary_files * kLink; }

Error quota_exceeded(const Inventory& inventory, uint64_t quota, uint64_t needed) {
  uint64_t pinned = 0;
  for (const Item& item : inventory.items) pinned += item.pinned ? item.on_disk : 0;
  const char* reason = "cache full: writes in progress use all of it";
  if (pinned > 0) reason = "cache full: pinned blobs and writes in progress leave no space";
  if (pinned > quota - needed) reason = "cache full: pinned blobs leave no space";
  return {Code::resource, reason};
}

// The map of a new file with blocks, which is recorded with them; that of a large file is in allocated().
constexpr uint64_t kUnrecorded = 2 * kDiskBlock;

// The recorded bytes of a file on disk.
uint64_t recorded(int fd) {
  struct stat status {};
  const uint64_t present = ::fstat(fd, &status) == 0 ? on_disk(status) : 0;
  return present <= kUnrecorded ? 0 : present;
}

// Downloads before all others. Items that are pinned, or could not be removed, stay in `inventory`.
GcResult evict(const Folders& folders, Inventory& inventory, uint64_t needed) {
  GcResult evicted;
  std::vector<Item> candidates = std::exchange(inventory.items, {});
  std::sort(candidates.begin(), candidates.end(), [](const Item& a, const Item& b) {
    const bool is_part = a.kind == ItemKind::part;
    return is_part != (b.kind == ItemKind::part) ? is_part : is_older(a.last_used, b.last_used);
  });
  std::set<Digest> gone;
  for (Item& item : candidates) {
    const bool is_evicted = evicted.bytes < needed && !item.pinned;
    if (is_evicted) item.names = names_of(folders, item.name);
    const auto freed = is_evicted ? remove_item(folders, item) : std::nullopt;
    if (!freed) {
      inventory.items.push_back(std::move(item));
      continue;
    }
    evicted.add(item, *freed);
    if (item.kind == ItemKind::blob) gone.insert(item.digest);
  }
  if (!gone.empty()) unlink_dead_links(folders, gone);
  inventory.on_disk -= std::min(inventory.on_disk, evicted.bytes);
  return evicted;
}

}  // namespace

// Polls, because flock(2) waits forever if the holder is stopped.
Result<QuotaLedger> QuotaLedger::lock(const Folders& folders, const std::stop_token& stop) {
  const std::string path = folders.top + "/v1/lock";
  const int fd = ::openat(folders.root->number(), "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return failure(io_error(path));
  Descriptor file(fd);
  const auto deadline = std::chrono::steady_clock::now() + kMaxLockWait;
  while (!try_lock(fd)) {
    if (errno != EWOULDBLOCK && errno != EINTR) return failure(io_error(path));
    if (stop.stop_requested() || is_cancelled() || std::chrono::steady_clock::now() > deadline)
      return failure(Code::resource, fmt::format("{}: locked by another process", path));
    std::this_thread::sleep_for(kLockPollInterval);
  }
  return QuotaLedger(std::move(file));
}

std::optional<uint64_t> QuotaLedger::read() const {
  std::array<char, 64> buffer{};
  const ssize_t got = ::pread(file_.number(), buffer.data(), buffer.size(), 0);
  std::string_view text(buffer.data(), got > 0 ? static_cast<size_t>(got) : 0);
  if (boot_id().empty() || !text.starts_with(boot_id() + " ") || !text.ends_with('\n')) return std::nullopt;
  text.remove_prefix(boot_id().size() + 1);
  text.remove_suffix(1);
  return parse_number<uint64_t>(text);
}

// The lock file contains "<boot> <bytes>". After a crash of the machine the number may be too small, so it is valid
// only for the same boot. Constant length, so that it needs no space on a full disk. A number that cannot be written is
// invalidated.
void QuotaLedger::write(uint64_t used) const {
  const std::string digits = std::to_string(used);
  const std::string text = fmt::format("{} {}{}\n", boot_id(), std::string(kDigits - digits.size(), '0'), digits);
  if (!write_fully(file_.number(), 0, std::as_bytes(std::span(text)))) std::ignore = ::ftruncate(file_.number(), 0);
}

uint64_t default_quota(std::string path) {
  struct statvfs system {};
  while (::statvfs(path.c_str(), &system) != 0) {
    const size_t slash = path.rfind('/');
    if (path == "/" || slash == std::string::npos) return UINT64_MAX;
    path.resize(std::max<size_t>(slash, 1));
  }
  return system.f_blocks / 4 * system.f_frsize;
}

uint64_t allocated(uint64_t size) {
  const uint64_t blocks = size / kDiskBlock + (size % kDiskBlock != 0);
  return (blocks + blocks / 256) * kDiskBlock;
}

bool allocate(int fd, uint64_t from, uint64_t to) {
  int done;
  do done = ::fallocate(fd, FALLOC_FL_KEEP_SIZE, static_cast<off_t>(from), static_cast<off_t>(to - from));
  while (done != 0 && errno == EINTR);
  return done == 0 || errno == EOPNOTSUPP || errno == ENOSYS;
}

Result<GcResult> shrink(const Folders& folders, uint64_t max_bytes) {
  const QuotaLedger ledger = TRY(QuotaLedger::lock(folders, {}));
  sweep(folders);
  Inventory inventory = TRY(scan_inventory(folders));
  const uint64_t used = inventory.on_disk;
  const GcResult evicted = used > max_bytes ? evict(folders, inventory, used - max_bytes) : GcResult{};
  ledger.write(counted_bytes(inventory));
  return evicted;
}

Result<void> DiskQuota::reserve(const Folders& folders, int fd, uint64_t size, Eviction eviction,
                                const std::stop_token& stop) {
  if (size > INT64_MAX || allocated(size) + kDiskBlock > quota_)
    return failure(Code::resource,
                   fmt::format("larger than the cache's quota of {}; use a larger --cache-size", human_size(quota_)));
  const QuotaLedger ledger = TRY(QuotaLedger::lock(folders, stop));
  const uint64_t present = recorded(fd);
  const uint64_t needed =
      allocated(size) - std::min(allocated(size), present) + (present == 0 ? kLink + kUnrecorded : 0);
  return record_and_allocate(folders, ledger, fd, 0, size, needed, eviction);
}

// Allocated, so that a scan of all files finds the bytes before they are written.
Result<void> DiskQuota::reserve_range(const Folders& folders, int fd, uint64_t from, uint64_t to,
                                      const std::stop_token& stop) {
  const uint64_t needed = allocated(to - from) + kDiskBlock + (recorded(fd) == 0 ? kUnrecorded : 0);
  if (needed > quota_)
    return failure(Code::resource,
                   fmt::format("larger than the cache's quota of {}; use a larger --cache-size", human_size(quota_)));
  const QuotaLedger ledger = TRY(QuotaLedger::lock(folders, stop));
  return record_and_allocate(folders, ledger, fd, from, to, needed, Eviction::allowed);
}

// Records first, so that being killed in between never undercounts.
Result<void> DiskQuota::record_and_allocate(const Folders& folders, const QuotaLedger& ledger, int fd, uint64_t from,
                                            uint64_t to, uint64_t needed, Eviction eviction) {
  TRY_VOID(record(folders, ledger, needed, eviction));
  if (allocate(fd, from, to)) return {};
  const bool full = is_disk_full(errno);
  const Error error = io_error(folders.top);
  if (!full || eviction == Eviction::forbidden) return tl::unexpected(error);
  if (make_room(folders, ledger, needed, needed) && allocate(fd, from, to)) return {};
  return tl::unexpected(error);
}

// Records `needed` more bytes; evicts others for them. Evicts some more, because scanning all files is expensive.
Result<void> DiskQuota::record(const Folders& folders, const QuotaLedger& ledger, uint64_t needed, Eviction eviction) {
  if (const auto used = ledger.read(); used && fits(*used, needed)) {
    ledger.write(*used + needed);
    return {};
  }
  sweep(folders);
  Inventory inventory = TRY(scan_inventory(folders));
  if (!fits(counted_bytes(inventory), needed)) {
    if (eviction == Eviction::forbidden)
      return failure(Code::resource, "cache full; the size of the download is unknown, so nothing was evicted");
    evict(folders, inventory, counted_bytes(inventory) + needed - quota_ + quota_ / 32);
    on_evict_();
  }
  if (!fits(counted_bytes(inventory), needed)) return tl::unexpected(quota_exceeded(inventory, quota_, needed));
  ledger.write(counted_bytes(inventory) + needed);
  return {};
}

Result<void> DiskQuota::reserve_link(const Folders& folders) {
  const QuotaLedger ledger = TRY(QuotaLedger::lock(folders, {}));
  if (const auto used = ledger.read()) ledger.write(*used + kLink);
  return {};
}

bool DiskQuota::try_reserve(const Folders& folders, uint64_t size) {
  const auto ledger = QuotaLedger::lock(folders, {});
  const auto used = ledger ? ledger->read() : std::nullopt;
  if (!used || !fits(*used, allocated(size))) return false;
  ledger->write(*used + allocated(size));
  return true;
}

bool DiskQuota::free_up(const Folders& folders, uint64_t size, const std::stop_token& stop) {
  const auto ledger = QuotaLedger::lock(folders, stop);
  return ledger && make_room(folders, *ledger, size, 0);
}

// For a full disk: evicts `needed` bytes, and records `reserved` bytes beside those in use. False when nothing could be
// evicted.
bool DiskQuota::make_room(const Folders& folders, const QuotaLedger& ledger, uint64_t needed, uint64_t reserved) {
  sweep(folders);
  auto inventory = scan_inventory(folders);
  if (!inventory) return false;
  const GcResult evicted = evict(folders, *inventory, needed);
  on_evict_();
  ledger.write(counted_bytes(*inventory) + reserved);
  return evicted.bytes > 0;
}

}  // namespace weightfs
