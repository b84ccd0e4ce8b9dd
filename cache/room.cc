#include "cache/room.h"

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <string_view>
#include <thread>

#include "base/text.h"

namespace weightfs {
namespace {

constexpr uint64_t kBlock = 4096;

constexpr size_t kDigits = 20;  // of 2^64

// Who holds the lock looks at all files at worst, and at one number else.
constexpr std::chrono::seconds kLongestWait{2};
constexpr std::chrono::milliseconds kPause{5};

uint64_t on_disk(const struct stat& file) { return static_cast<uint64_t>(file.st_blocks) * 512; }

// The lock file, locked: "<boot> <bytes>". The boot is there because a count that was never written back when the
// machine stopped may be less than the truth; one of this boot is what the last process wrote.
class Count {
 public:
  // Polled for: whoever holds it may be stopped, and flock(2) waits without end.
  static Result<Count> locked(const Folders& folders, const std::atomic<bool>& stop) {
    const std::string path = folders.top + "/v1/lock";
    const int fd = ::openat(folders.root->fd(), "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) return tl::unexpected(system_error(path));
    auto file = std::make_shared<OpenFile>(fd);
    const auto last = std::chrono::steady_clock::now() + kLongestWait;
    while (!try_lock(fd)) {
      if (errno != EWOULDBLOCK && errno != EINTR) return tl::unexpected(system_error(path));
      if (stop || std::chrono::steady_clock::now() > last)
        return failure(Code::unavailable, str(path, ": another process holds it and does not let go"));
      std::this_thread::sleep_for(kPause);
    }
    return Count(std::move(file));
  }

  std::optional<uint64_t> read() const {
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
  void write(uint64_t used) const {
    const std::string digits = str(used);
    const std::string text = str(boot(), " ", std::string(kDigits - digits.size(), '0'), digits, "\n");
    if (!write_fully(file_->fd(), 0, std::as_bytes(std::span(text)))) std::ignore = ::ftruncate(file_->fd(), 0);
  }

 private:
  explicit Count(OpenFilePtr file) : file_(std::move(file)) {}

  OpenFilePtr file_;
};

bool is_older(const timespec& a, const timespec& b) {
  return a.tv_sec != b.tv_sec ? a.tv_sec < b.tv_sec : a.tv_nsec < b.tv_nsec;
}

void unlink_links_to(const OpenFile& index, const std::unordered_set<std::string>& gone) {
  for_each_in(index, ".", [&](const std::string& link) {
    const auto digest = digest_in_link(index, link);
    if (digest && gone.contains(digest->hex())) ::unlinkat(index.fd(), link.c_str(), 0);
  });
}

}  // namespace

uint64_t default_quota(std::string path) {
  struct statvfs system {};
  while (::statvfs(path.c_str(), &system) != 0) {
    const size_t slash = path.rfind('/');
    if (path == "/" || slash == std::string::npos) return UINT64_MAX;
    path.resize(std::max<size_t>(slash, 1));
  }
  return system.f_blocks / 10 * system.f_frsize;
}

uint64_t allocated(uint64_t size) {
  const uint64_t blocks = size / kBlock + (size % kBlock != 0);
  return (blocks + blocks / 256) * kBlock;
}

bool allocate(int fd, uint64_t from, uint64_t to) {
  int done;
  do done = ::fallocate(fd, FALLOC_FL_KEEP_SIZE, static_cast<off_t>(from), static_cast<off_t>(to - from));
  while (done != 0 && errno == EINTR);
  return done == 0 || errno == EOPNOTSUPP || errno == ENOSYS;
}

bool is_full(int error) { return error == ENOSPC || error == EDQUOT; }

uint64_t Room::quota(const Folders& folders) {
  const std::scoped_lock lock(mutex_);
  if (!quota_) quota_ = default_quota(folders.top);
  return *quota_;
}

Result<void> Room::take(const Folders& folders, int fd, uint64_t from, uint64_t to, const std::atomic<bool>& stop) {
  const uint64_t quota = this->quota(folders);
  if (to > INT64_MAX || allocated(to) + kBlock > quota)
    return failure(Code::unavailable, str("larger than all that may be kept, ", human_size(quota)));
  const Count count = TRY(Count::locked(folders, stop));
  const uint64_t link = from == 0 ? kBlock : 0;  // ext4 puts the text of one this long in a block of its own
  const uint64_t wanted = allocated(to) - allocated(from) + link;
  const auto counted = count.read();
  const bool fits = counted && *counted <= quota && wanted <= quota - *counted;
  const uint64_t used = fits ? *counted : TRY(make_room(folders, quota, wanted));
  count.write(used + wanted);  // first: to be killed in between must not leave less counted than used
  if (allocate(fd, from, to)) return {};
  const bool full = is_full(errno);
  const Error error = system_error(folders.top);
  if (!full) return tl::unexpected(error);
  Contents contents = look(folders);
  const uint64_t freed = evict(folders, contents, wanted);
  count.write(contents.used + wanted);
  if (freed > 0 && allocate(fd, from, to)) return {};
  return tl::unexpected(error);
}

bool Room::free_up(const Folders& folders, uint64_t size, const std::atomic<bool>& stop) {
  const auto count = Count::locked(folders, stop);
  if (!count) return false;
  Contents contents = look(folders);
  const uint64_t freed = evict(folders, contents, size);
  count->write(contents.used);
  return freed > 0;
}

// The bytes that are used once blobs made way for `wanted` more. Some more of them go than have to: looking at all
// files is dear, and should not be due again with the very next blob.
Result<uint64_t> Room::make_room(const Folders& folders, uint64_t quota, uint64_t wanted) {
  Contents contents = look(folders);
  if (contents.used <= quota && wanted <= quota - contents.used) return contents.used;
  const uint64_t over = contents.used + wanted - quota;
  evict(folders, contents, over + quota / 32);
  if (contents.used > quota || wanted > quota - contents.used)
    return failure(Code::unavailable, "all that may be kept is being made at the moment");
  return contents.used;
}

// What there is, once what killed processes left is gone.
Room::Contents Room::look(const Folders& folders) {
  sweep(folders);
  Contents contents;
  const auto add = [&](const OpenFile& folder, const std::string& path, const std::string& blob) {
    struct stat file {};
    if (::fstatat(folder.fd(), path.c_str(), &file, AT_SYMLINK_NOFOLLOW) != 0) return;
    contents.used += on_disk(file);
    const auto digest = digest_of_hex(blob);
    if (digest && S_ISREG(file.st_mode)) contents.blobs.push_back(Blob{*digest, on_disk(file), file.st_mtim});
  };
  for_each_in(*folders.blobs, ".", [&](const std::string& two) {
    for_each_in(*folders.blobs, two, [&](const std::string& name) { add(*folders.blobs, str(two, "/", name), name); });
  });
  for (const OpenFilePtr& folder : {folders.making, folders.index})
    for_each_in(*folder, ".", [&](const std::string& name) { add(*folder, name, ""); });
  return contents;
}

uint64_t Room::evict(const Folders& folders, Contents& contents, uint64_t wanted) {
  std::sort(contents.blobs.begin(), contents.blobs.end(),
            [](const Blob& a, const Blob& b) { return is_older(a.used, b.used); });
  uint64_t freed = 0;
  std::unordered_set<std::string> gone;
  for (const Blob& blob : contents.blobs) {
    if (freed >= wanted) break;
    if (::unlinkat(folders.blobs->fd(), blob_file(blob.digest).c_str(), 0) != 0) continue;
    gone.insert(blob.digest.hex());
    freed += blob.allocated;
  }
  evicted_();
  if (!gone.empty()) unlink_links_to(*folders.index, gone);
  contents.used -= std::min(contents.used, freed);
  return freed;
}

}  // namespace weightfs
