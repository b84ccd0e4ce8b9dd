// The lock file contains "<boot> <bytes>". After a crash of the machine the number may be too small, so it is valid
// only for the same boot.
#include "cache/store/quota_ledger.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <stop_token>
#include <string_view>
#include <thread>

#include "base/os/descriptor.h"
#include "base/os/system_error.h"
#include "base/text.h"

namespace weightfs::store {
namespace {

constexpr size_t kDigits = 20;  // of 2^64

// The holder of the lock scans all files at worst.
constexpr std::chrono::seconds kMaxWait{2};
constexpr std::chrono::milliseconds kPollInterval{5};

}  // namespace

// Polls, because flock(2) waits forever if the holder is stopped.
Result<QuotaLedger> QuotaLedger::lock(const Folders& folders, const std::stop_token& stop) {
  const std::string path = folders.top + "/v1/lock";
  const int fd = ::openat(folders.root->number(), "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return failure(io_error(path));
  auto file = std::make_shared<Descriptor>(fd);
  const auto deadline = std::chrono::steady_clock::now() + kMaxWait;
  while (!try_lock(fd)) {
    if (errno != EWOULDBLOCK && errno != EINTR) return failure(io_error(path));
    if (stop.stop_requested() || std::chrono::steady_clock::now() > deadline)
      return failure(Code::resource, fmt::format("{}: locked by another process", path));
    std::this_thread::sleep_for(kPollInterval);
  }
  return QuotaLedger(std::move(file));
}

std::optional<uint64_t> QuotaLedger::read() const {
  std::array<char, 64> buffer{};
  const ssize_t got = ::pread(file_->number(), buffer.data(), buffer.size(), 0);
  std::string_view text(buffer.data(), got > 0 ? static_cast<size_t>(got) : 0);
  if (boot_id().empty() || !text.starts_with(boot_id() + " ") || !text.ends_with('\n')) return std::nullopt;
  text.remove_prefix(boot_id().size() + 1);
  text.remove_suffix(1);
  return parse_number<uint64_t>(text);
}

// Constant length, so that it needs no space on a full disk. A number that cannot be written is invalidated.
void QuotaLedger::write(uint64_t used) const {
  const std::string digits = std::to_string(used);
  const std::string text = fmt::format("{} {}{}\n", boot_id(), std::string(kDigits - digits.size(), '0'), digits);
  if (!write_fully(file_->number(), 0, std::as_bytes(std::span(text)))) std::ignore = ::ftruncate(file_->number(), 0);
}

}  // namespace weightfs::store
