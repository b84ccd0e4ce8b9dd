#include "cache/disk_quota.h"

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/text.h"
#include "cache/store/quota_ledger.h"

namespace weightfs {
namespace {

constexpr uint64_t kBlock = 4096;

// A link in the index, or the note beside a part: ext4 puts the text of one this long in a block of its own.
constexpr uint64_t kLink = kBlock;

// The links of what is being made are yet to come, while their room was taken with the first byte.
uint64_t used_by(const Contents& contents) {
  return contents.on_disk + (contents.makings + contents.parts.size()) * kLink;
}

Error no_room(const Contents& contents, uint64_t quota, uint64_t wanted) {
  uint64_t pinned = 0;
  for (const Contents::Blob& blob : contents.blobs) pinned += blob.pinned ? blob.on_disk : 0;
  const char* reason = "all that may be kept is being made at the moment";
  if (pinned > 0) reason = "the pinned blobs, and what is being made at the moment, leave no room for it";
  if (pinned > quota - wanted) reason = "the pinned blobs leave no room for it";
  return {Code::resource, reason};
}

}  // namespace

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

Result<void> Room::take(const Folders& folders, int fd, uint64_t from, uint64_t to, Others others,
                        const std::atomic<bool>& stop) {
  const uint64_t quota = this->quota(folders);
  if (to > INT64_MAX || allocated(to) + kBlock > quota)
    return failure(Code::resource, str("larger than all that may be kept, ", human_size(quota)));
  const Count count = TRY(Count::locked(folders, stop));
  const uint64_t wanted = allocated(to) - allocated(from) + (from == 0 ? kLink : 0);
  const auto counted = count.read();
  const bool fits = counted && *counted <= quota && wanted <= quota - *counted;
  const uint64_t used = fits ? *counted : TRY(make_room(folders, quota, wanted, others));
  count.write(used + wanted);  // first: to be killed in between must not leave less counted than used
  if (allocate(fd, from, to)) return {};
  const bool full = is_full(errno);
  const Error error = system_error(folders.top);
  if (!full || others == Others::stay) return tl::unexpected(error);
  sweep(folders);
  auto contents = contents_of(folders);
  if (!contents) return tl::unexpected(error);
  const Freed freed = evict(folders, *contents, wanted);
  count.write(used_by(*contents) + wanted);
  if (freed.bytes > 0 && allocate(fd, from, to)) return {};
  return tl::unexpected(error);
}

Result<void> Room::take_link(const Folders& folders) {
  const std::atomic<bool> never = false;
  const Count count = TRY(Count::locked(folders, never));
  if (const auto used = count.read()) count.write(*used + kLink);
  return {};
}

bool Room::take_extra(const Folders& folders, uint64_t size) {
  const std::atomic<bool> never = false;
  const uint64_t quota = this->quota(folders);
  const auto count = Count::locked(folders, never);
  const auto used = count ? count->read() : std::nullopt;
  if (!used || *used > quota || allocated(size) > quota - *used) return false;
  count->write(*used + allocated(size));
  return true;
}

bool Room::free_up(const Folders& folders, uint64_t size, const std::atomic<bool>& stop) {
  const auto count = Count::locked(folders, stop);
  if (!count) return false;
  sweep(folders);
  auto contents = contents_of(folders);
  if (!contents) return false;
  const Freed freed = evict(folders, *contents, size);
  count->write(used_by(*contents));
  return freed.bytes > 0;
}

Result<Freed> Room::shrink(const Folders& folders, uint64_t most, const std::atomic<bool>& stop) {
  const Count count = TRY(Count::locked(folders, stop));
  sweep(folders);
  Contents contents = TRY(contents_of(folders));
  const uint64_t used = contents.on_disk;
  const Freed freed = used > most ? evict(folders, contents, used - most) : Freed{};
  count.write(used_by(contents));
  return freed;
}

// The bytes that are used once others made way for `wanted` more. Some more of them go than have to: looking at all
// files is dear, and should not be due again with the very next blob.
Result<uint64_t> Room::make_room(const Folders& folders, uint64_t quota, uint64_t wanted, Others others) {
  sweep(folders);
  Contents contents = TRY(contents_of(folders));
  const auto fits = [&] { return used_by(contents) <= quota && wanted <= quota - used_by(contents); };
  if (!fits() && others == Others::stay)
    return failure(Code::resource, "nobody said how large it is, so nothing is removed for it, and there is no room");
  if (!fits()) evict(folders, contents, used_by(contents) + wanted - quota + quota / 32);
  if (!fits()) return tl::unexpected(no_room(contents, quota, wanted));
  return used_by(contents);
}

// What could not be removed stays in `contents`.
Freed Room::evict(const Folders& folders, Contents& contents, uint64_t wanted) {
  Freed freed;
  std::vector<Contents::Part> parts = std::exchange(contents.parts, {});
  std::sort(parts.begin(), parts.end(), [](const auto& a, const auto& b) { return is_older(a.written, b.written); });
  for (const Contents::Part& part : parts) {
    const auto removed = freed.bytes < wanted ? remove_unheld(folders, part_file(part.digest)) : std::nullopt;
    if (!removed) {
      contents.parts.push_back(part);
      continue;
    }
    freed.bytes += *removed;
    ++freed.parts;
  }
  std::vector<Contents::Blob> blobs = std::exchange(contents.blobs, {});
  std::sort(blobs.begin(), blobs.end(), [](const auto& a, const auto& b) { return is_older(a.used, b.used); });
  std::set<std::string> gone;
  for (const Contents::Blob& blob : blobs) {
    const bool stays = freed.bytes >= wanted || blob.pinned;
    if (stays || !unlink_blob(folders, blob.digest)) {
      contents.blobs.push_back(blob);
      continue;
    }
    gone.insert(blob.digest.hex());
    freed.bytes += blob.on_disk;
    ++freed.blobs;
  }
  evicted_();
  if (!gone.empty()) unlink_links_to(folders, gone);
  contents.on_disk -= std::min(contents.on_disk, freed.bytes);
  return freed;
}

}  // namespace weightfs
