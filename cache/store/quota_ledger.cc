// The lock file is "<boot> <bytes>". The boot is there because a count that was never written back when the machine
// stopped may be less than the truth; one of this boot is what the last process wrote.
#include "cache/store/quota_ledger.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <string_view>
#include <thread>

#include "base/text.h"

namespace weightfs {
namespace {

constexpr size_t kDigits = 20;  // of 2^64

// Who holds the lock looks at all files at worst, and at one number else.
constexpr std::chrono::seconds kLongestWait{2};
constexpr std::chrono::milliseconds kPause{5};

}  // namespace

// Polled for: whoever holds it may be stopped, and flock(2) waits without end.
Result<Count> Count::locked(const Folders& folders, const std::atomic<bool>& stop) {
  const std::string path = folders.top + "/v1/lock";
  const int fd = ::openat(folders.root->fd(), "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return tl::unexpected(system_error(path));
  auto file = std::make_shared<OpenFile>(fd);
  const auto last = std::chrono::steady_clock::now() + kLongestWait;
  while (!try_lock(fd)) {
    if (errno != EWOULDBLOCK && errno != EINTR) return tl::unexpected(system_error(path));
    if (stop || std::chrono::steady_clock::now() > last)
      return failure(Code::resource, str(path, ": another process holds it and does not let go"));
    std::this_thread::sleep_for(kPause);
  }
  return Count(std::move(file));
}

std::optional<uint64_t> Count::read() const {
  std::array<char, 64> buffer{};
  const ssize_t got = ::pread(file_->fd(), buffer.data(), buffer.size(), 0);
  std::string_view text(buffer.data(), got > 0 ? static_cast<size_t>(got) : 0);
  if (boot().empty() || !text.starts_with(boot() + " ") || !text.ends_with('\n')) return std::nullopt;
  text.remove_prefix(boot().size() + 1);
  uint64_t used = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size() - 1, used);
  if (error != std::errc() || end != text.data() + text.size() - 1) return std::nullopt;
  return used;
}

// Always as long as before: that needs no room on a full disk. A count that cannot be written is made unreadable.
void Count::write(uint64_t used) const {
  const std::string digits = str(used);
  const std::string text = str(boot(), " ", std::string(kDigits - digits.size(), '0'), digits, "\n");
  if (!write_fully(file_->fd(), 0, std::as_bytes(std::span(text)))) std::ignore = ::ftruncate(file_->fd(), 0);
}

}  // namespace weightfs
