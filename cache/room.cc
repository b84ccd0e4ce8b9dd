#include "cache/room.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <string_view>

#include "base/text.h"

namespace weightfs {
namespace {

constexpr uint64_t kBlock = 4096;

constexpr size_t kDigits = 20;  // of 2^64

uint64_t on_disk(const struct stat& file) { return static_cast<uint64_t>(file.st_blocks) * 512; }

// The lock file, locked: "<boot> <bytes>". The boot is there because a count that was never written back when the
// machine stopped may be less than the truth; one of this boot is what the last process wrote.
class Count {
 public:
  static Result<Count> locked(const std::string& path) {
    auto file = std::make_shared<OpenFile>(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (file->fd() < 0) return tl::unexpected(system_error(path));
    while (::flock(file->fd(), LOCK_EX) != 0)
      if (errno != EINTR) return tl::unexpected(system_error(path));
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

uint64_t Room::quota() {
  const std::scoped_lock lock(mutex_);
  if (!quota_) quota_ = default_quota(paths_.top);
  return *quota_;
}

Result<void> Room::take(int fd, uint64_t from, uint64_t to) {
  if (to > INT64_MAX || allocated(to) + kBlock > quota())
    return failure(Code::unavailable, str("larger than all that may be kept, ", human_size(quota())));
  const Count count = TRY(Count::locked(paths_.lock));
  const uint64_t link = from == 0 ? kBlock : 0;  // ext4 puts the text of one this long in a block of its own
  const uint64_t wanted = allocated(to) - allocated(from) + link;
  const auto counted = count.read();
  const uint64_t used =
      counted && *counted <= quota() && wanted <= quota() - *counted ? *counted : TRY(make_room(wanted));
  count.write(used + wanted);  // first: to be killed in between must not leave less counted than used
  if (allocate(fd, from, to)) return {};
  const bool full = is_full(errno);
  const Error error = system_error(paths_.making);
  if (!full) return tl::unexpected(error);
  Contents contents = look();
  const uint64_t freed = evict(contents, wanted);
  count.write(contents.used + wanted);
  if (freed > 0 && allocate(fd, from, to)) return {};
  return tl::unexpected(error);
}

bool Room::free_up(uint64_t size) {
  const auto count = Count::locked(paths_.lock);
  if (!count) return false;
  Contents contents = look();
  const uint64_t freed = evict(contents, size);
  count->write(contents.used);
  return freed > 0;
}

// The bytes that are used once blobs made way for `wanted` more. Some more of them go than have to: looking at all
// files is dear, and should not be due again with the very next blob.
Result<uint64_t> Room::make_room(uint64_t wanted) {
  Contents contents = look();
  if (contents.used <= quota() && wanted <= quota() - contents.used) return contents.used;
  const uint64_t over = contents.used + wanted - quota();
  evict(contents, over + quota() / 32);
  if (contents.used > quota() || wanted > quota() - contents.used)
    return failure(Code::unavailable, "all that may be kept is being made at the moment");
  return contents.used;
}

Room::Contents Room::look() const {
  Contents contents;
  const auto add = [&](const std::string& path, const std::string& blob) {
    struct stat file {};
    if (::lstat(path.c_str(), &file) != 0) return;
    contents.used += on_disk(file);
    const auto digest = digest_of_hex(blob);
    if (digest && S_ISREG(file.st_mode)) contents.blobs.push_back(Blob{*digest, on_disk(file), file.st_mtim});
  };
  for_each_in(paths_.blobs, [&](const std::string& folder) {
    const std::string path = str(paths_.blobs, "/", folder);
    for_each_in(path, [&](const std::string& name) { add(str(path, "/", name), name); });
  });
  for_each_in(paths_.making, [&](const std::string& name) { add(str(paths_.making, "/", name), ""); });
  for_each_in(paths_.index, [&](const std::string& name) { add(str(paths_.index, "/", name), ""); });
  return contents;
}

uint64_t Room::evict(Contents& contents, uint64_t wanted) {
  std::sort(contents.blobs.begin(), contents.blobs.end(),
            [](const Blob& a, const Blob& b) { return is_older(a.used, b.used); });
  uint64_t freed = 0;
  std::unordered_set<std::string> gone;
  for (const Blob& blob : contents.blobs) {
    if (freed >= wanted) break;
    if (::unlink(paths_.blob(blob.digest.hex()).c_str()) != 0) continue;
    evicted_(blob.digest);
    gone.insert(blob.digest.hex());
    freed += blob.allocated;
  }
  if (!gone.empty()) unlink_links_to(gone);
  contents.used -= std::min(contents.used, freed);
  return freed;
}

void Room::unlink_links_to(const std::unordered_set<std::string>& gone) const {
  for_each_in(paths_.index, [&](const std::string& link) {
    const std::string path = str(paths_.index, "/", link);
    const auto digest = digest_in_link(path);
    if (digest && gone.contains(digest->hex())) ::unlink(path.c_str());
  });
}

}  // namespace weightfs
