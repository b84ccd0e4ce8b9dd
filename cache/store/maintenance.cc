#include "cache/maintenance.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <ctime>

#include "base/text.h"
#include "cache/disk_quota.h"
#include "cache/store/quota_ledger.h"

namespace weightfs {
namespace {

constexpr size_t kFewestDigits = 6;

// A link that leads nowhere may be one to a blob that is about to be there: a maker puts the link first.
constexpr time_t kLinkRests = 60;

// People wait for a lock as long as stores do.
const std::atomic<bool> kNeverStop = false;

// In lower case, without "sha256:"; empty when it cannot name a digest.
std::string digits_of(std::string_view text) {
  for (const std::string_view prefix : {"sha256:", "sha256-"})
    if (text.starts_with(prefix)) text.remove_prefix(prefix.size());
  if (text.size() < kFewestDigits || text.size() > 64) return "";
  const auto filled = digest_of_hex(std::string(text) + std::string(64 - text.size(), '0'));
  return filled ? filled->hex().substr(0, text.size()) : "";
}

// What was removed is counted as used until somebody looks; that is done here. When it cannot be (another process holds
// the lock), the next one that wants room does it.
void count_anew(const Folders& folders) {
  std::ignore = Room(std::nullopt, [] {}).shrink(folders, UINT64_MAX, kNeverStop);
}

// Reads blobs, one after the other, and compares them with their names.
class Inspection {
 public:
  Inspection(const Folders& folders, uint64_t whole, const std::function<void(const Checking&)>& report)
      : folders_(folders), whole_(whole), report_(report), buffer_(1 << 20) {}

  void inspect(const Digest& digest) {
    const std::string place = blob_file(digest);
    const OpenFile file(::openat(folders_.blobs->fd(), place.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    if (file.fd() < 0 && errno == ENOENT) return;  // evicted meanwhile
    const auto found = file.fd() < 0 ? tl::unexpected(system_error(digest.hex())) : digest_of(file.fd(), digest);
    if (!found) {
      checked_.unreadable.push_back(found.error());
    } else if (*found == digest) {
      ++checked_.right;
    } else {
      remove(digest, file.fd(), *found);
    }
  }

  Checked result() { return std::move(checked_); }
  const std::set<std::string>& gone() const { return gone_; }

 private:
  Result<Digest> digest_of(int fd, const Digest& name) {
    Sha256 hash;
    for (uint64_t offset = 0;;) {
      if (report_) report_({name, checked_.bytes, whole_});
      const ssize_t got = ::pread(fd, buffer_.data(), buffer_.size(), static_cast<off_t>(offset));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return tl::unexpected(system_error(name.hex()));
      if (got == 0) return hash.finish();
      hash.update(std::span(buffer_).first(static_cast<size_t>(got)));
      offset += static_cast<size_t>(got);
      checked_.bytes += static_cast<size_t>(got);
    }
  }

  // Somebody may have made the blob again meanwhile: that is another file. Should it be removed all the same, because
  // it came in between, it is only made once more.
  void remove(const Digest& digest, int fd, const Digest& found) {
    const std::string line = str(digest.hex(), ": its bytes have the digest ", found.hex());
    if (!is_at(*folders_.blobs, blob_file(digest), fd)) {
      checked_.wrong.push_back(line + "; it is gone");
    } else if (unlink_blob(folders_, digest) || errno == ENOENT) {
      gone_.insert(digest.hex());
      checked_.wrong.push_back(line + "; removed");
    } else {
      checked_.wrong.push_back(str(line, "; ", system_error("it cannot be removed").message));
    }
  }

  const Folders& folders_;
  const uint64_t whole_;
  const std::function<void(const Checking&)>& report_;
  std::vector<std::byte> buffer_;
  Checked checked_;
  std::set<std::string> gone_;
};

// Removes, and notes what went.
class Removal {
 public:
  Removal(const Folders& folders, Pinned pinned) : folders_(folders), pinned_(pinned) {}

  void remove(const Contents::Blob& blob) {
    if (blob.pinned && pinned_ == Pinned::stays) return stays(blob.digest, "is pinned");
    const auto unpinned = blob.pinned ? remove_pin(folders_, blob.digest) : false;
    if (!unpinned) return stays(blob.digest, unpinned.error().message);
    if (unlink_blob(folders_, blob.digest)) {
      gone_.insert(blob.digest.hex());
      removed_.bytes += blob.on_disk;
      ++removed_.blobs;
    } else if (errno != ENOENT) {
      stays(blob.digest, system_error("cannot be removed").message);
    }
  }

  void remove(const Contents::Part& part) {
    const auto bytes = remove_unheld(folders_, part_file(part.digest));
    if (!bytes) return stays(part.digest, "is being fetched");
    removed_.bytes += *bytes;
    ++removed_.unfinished;
  }

  Removed done() {
    unlink_links_to(folders_, gone_);
    return std::move(removed_);
  }

 private:
  void stays(const Digest& digest, const std::string& why) { removed_.stays.push_back(str(digest.hex(), ": ", why)); }

  const Folders& folders_;
  const Pinned pinned_;
  Removed removed_;
  std::set<std::string> gone_;
};

// Under the lock: nothing is pinned meanwhile.
Result<Removed> remove_if(const Folders& folders, Pinned pinned, const std::function<bool(const Digest&)>& is_meant) {
  const Count lock = TRY(Count::locked(folders, kNeverStop));
  const Contents contents = TRY(contents_of(folders));
  Removal removal(folders, pinned);
  for (const Contents::Blob& blob : contents.blobs)
    if (is_meant(blob.digest)) removal.remove(blob);
  for (const Contents::Part& part : contents.parts)
    if (is_meant(part.digest)) removal.remove(part);
  return removal.done();
}

// To the blobs that links lead to, but are not there. When a link is used just now by a maker who found it there
// already, the blob is made once more the next time.
uint64_t unlink_dead_links(const Folders& folders) {
  const OpenFile& index = *folders.index;
  std::set<std::string> gone;
  for_each_in(index, ".", [&](const std::string& link) {
    struct stat status {};
    const auto digest = digest_in_link(index, link);
    if (!digest || has_blob(folders, *digest)) return;
    if (::fstatat(index.fd(), link.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) return;
    if (status.st_mtim.tv_sec < ::time(nullptr) - kLinkRests) gone.insert(digest->hex());
  });
  return unlink_links_to(folders, gone);
}

}  // namespace

Usage usage_of(const Contents& contents) {
  Usage usage;
  for (const Contents::Blob& blob : contents.blobs) {
    usage.blob_bytes += blob.on_disk;
    usage.pinned += blob.pinned;
    usage.pinned_bytes += blob.pinned ? blob.on_disk : 0;
  }
  for (const Contents::Part& part : contents.parts) usage.unfinished_bytes += part.on_disk;
  usage.blobs = contents.blobs.size();
  usage.unfinished = contents.parts.size();
  usage.makings = contents.makings;
  usage.all_bytes = contents.on_disk;
  return usage;
}

bool may_be_digest(std::string_view text) { return !digits_of(text).empty(); }

Result<Digest> digest_in(const Contents& contents, const std::string& text) {
  const std::string digits = digits_of(text);
  if (digits.empty()) return failure(Code::not_found, str(quoted(text), " is no digest: 6 to 64 hex digits are"));
  std::set<std::string> meant;
  const auto add = [&](const Digest& digest) {
    if (digest.hex().starts_with(digits)) meant.insert(digest.hex());
  };
  for (const Contents::Blob& blob : contents.blobs) add(blob.digest);
  for (const Contents::Part& part : contents.parts) add(part.digest);
  for (const Digest& digest : contents.absent) add(digest);
  if (meant.empty()) return failure(Code::not_found, str(digits, ": nothing in the cache has this digest"));
  if (meant.size() > 1) return failure(Code::not_found, str(digits, ": ", meant.size(), " digests begin so"));
  return *digest_of_hex(*meant.begin());
}

// Null when there is no cache yet.
Result<FoldersPtr> Upkeep::folders() const {
  auto folders = open_folders(directory_, Missing::fail);
  if (!folders && folders.error().code == Code::not_found) return nullptr;
  return folders;
}

Result<Contents> Upkeep::contents() const {
  const FoldersPtr folders = TRY(this->folders());
  if (!folders) return Contents{};
  Contents contents = TRY(contents_of(*folders));
  ask_who_fetches(*folders, contents);
  std::sort(contents.blobs.begin(), contents.blobs.end(),
            [](const auto& a, const auto& b) { return is_older(b.used, a.used); });
  std::sort(contents.parts.begin(), contents.parts.end(),
            [](const auto& a, const auto& b) { return is_older(b.written, a.written); });
  return contents;
}

Result<Checked> Upkeep::verify(const std::function<void(const Checking&)>& report) const {
  const FoldersPtr folders = TRY(this->folders());
  if (!folders) return Checked{};
  const Contents contents = TRY(this->contents());
  uint64_t whole = 0;
  for (const Contents::Blob& blob : contents.blobs) whole += blob.size;
  Inspection inspection(*folders, whole, report);
  for (const Contents::Blob& blob : contents.blobs) inspection.inspect(blob.digest);
  unlink_links_to(*folders, inspection.gone());
  if (!inspection.gone().empty()) count_anew(*folders);
  return inspection.result();
}

Result<Removed> Upkeep::collect(std::optional<uint64_t> most) const {
  const FoldersPtr folders = TRY(this->folders());
  if (!folders) return Removed{};
  Removed removed;
  const Contents before = TRY(contents_of(*folders));
  for (const Contents::Part& part : before.parts) {
    const auto bytes = remove_unheld(*folders, part_file(part.digest));
    removed.unfinished += bytes.has_value();
    removed.bytes += bytes.value_or(0);
  }
  const Swept swept = sweep(*folders);
  removed.leftovers = swept.files + unlink_dead_links(*folders);
  const Freed freed = TRY(Room(std::nullopt, [] {}).shrink(*folders, most.value_or(UINT64_MAX), kNeverStop));
  removed.blobs = freed.blobs;
  removed.bytes += swept.bytes + freed.bytes;
  const Contents after = TRY(contents_of(*folders));
  if (most && after.on_disk > *most)
    removed.stays.push_back(str(human_size(after.on_disk), " stay: what is pinned, and what is being made"));
  return removed;
}

Result<Removed> Upkeep::remove(const std::function<bool(const Digest&)>& is_meant, Pinned pinned) const {
  const FoldersPtr folders = TRY(this->folders());
  if (!folders) return Removed{};
  const Removed removed = TRY(remove_if(*folders, pinned, is_meant));
  count_anew(*folders);
  return removed;
}

Result<Removed> Upkeep::remove(const std::vector<Digest>& digests, Pinned pinned) const {
  return remove(
      [&](const Digest& digest) { return std::find(digests.begin(), digests.end(), digest) != digests.end(); }, pinned);
}

Result<Removed> Upkeep::remove_all(Pinned pinned) const {
  return remove([](const Digest&) { return true; }, pinned);
}

// Under the lock, as evictions are: what was there when it was pinned stays there.
Result<bool> Upkeep::pin(const Digest& digest) const {
  const FoldersPtr folders = TRY(this->folders());
  if (!folders) return failure(Code::not_found, str(digest.hex(), ": the cache is empty"));
  const Count count = TRY(Count::locked(*folders, kNeverStop));
  if (!has_blob(*folders, digest)) return failure(Code::not_found, str(digest.hex(), ": not kept in the cache"));
  return add_pin(*folders, digest);
}

Result<bool> Upkeep::unpin(const Digest& digest) const {
  const FoldersPtr folders = TRY(this->folders());
  return folders ? remove_pin(*folders, digest) : false;
}

}  // namespace weightfs
