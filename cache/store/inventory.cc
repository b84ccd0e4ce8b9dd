#include "cache/store/inventory.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <unordered_map>

#include "base/text.h"

namespace weightfs {
namespace {

// The digest of a blob that lies in blobs/<two>/<name>; nothing for a name that no blob has.
std::optional<Digest> digest_of_blob(const std::string& two, const std::string& name) {
  const auto digest = digest_of_hex(name);
  return digest && blob_file(*digest) == str(two, "/", name) ? digest : std::nullopt;
}

class Look {
 public:
  Look(const Folders& folders, std::set<std::string> pins) : folders_(folders), pins_(std::move(pins)) {}

  // A blob that is published meanwhile moves from making/ to blobs/: in this order it is not missed.
  Contents all() {
    const OpenFile& blobs = *folders_.blobs;
    for_each_in(*folders_.making, ".", [&](const std::string& name) { making(name); });
    for_each_in(blobs, ".", [&](const std::string& two) {
      for_each_in(blobs, two, [&](const std::string& name) { blob(two, name); });
    });
    for_each_in(*folders_.index, ".",
                [&](const std::string& name) { contents_.links += count(*folders_.index, name); });
    for_each_in(*folders_.root, kSumsFolder,
                [&](const std::string& name) { count(*folders_.root, str(kSumsFolder, "/", name)); });
    for (const std::string& hex : pins_) contents_.absent.push_back(*digest_of_hex(hex));
    return std::move(contents_);
  }

 private:
  // Counts the file; false when it is gone.
  bool count(const OpenFile& folder, const std::string& path) {
    if (::fstatat(folder.fd(), path.c_str(), &file_, AT_SYMLINK_NOFOLLOW) != 0) return false;
    contents_.on_disk += on_disk(file_);
    return true;
  }

  void blob(const std::string& two, const std::string& name) {
    if (!count(*folders_.blobs, str(two, "/", name)) || !S_ISREG(file_.st_mode)) return;
    const auto digest = digest_of_blob(two, name);
    if (!digest) return;
    if (const auto made = made_.extract(file_.st_ino)) {  // it was published since it was counted in making/
      contents_.on_disk -= std::min(contents_.on_disk, made.mapped());
      if (std::erase_if(contents_.parts, [&](const Contents::Part& p) { return p.digest == *digest; }) == 0)
        --contents_.makings;
    }
    const bool pinned = pins_.erase(name) > 0;
    contents_.blobs.push_back({*digest, static_cast<uint64_t>(file_.st_size), on_disk(file_), file_.st_mtim, pinned});
  }

  void making(const std::string& name) {
    if (!count(*folders_.making, name) || !S_ISREG(file_.st_mode)) return;
    made_.emplace(file_.st_ino, on_disk(file_));
    if (const auto digest = digest_of_part(name)) {
      contents_.parts.push_back({*digest, static_cast<uint64_t>(file_.st_size), on_disk(file_), file_.st_mtim});
    } else {
      ++contents_.makings;
    }
  }

  const Folders& folders_;
  std::set<std::string> pins_;                // of blobs that were not met yet
  std::unordered_map<ino_t, uint64_t> made_;  // what the files in making/ take on disk
  Contents contents_;
  struct stat file_ {};  // the one counted last
};

}  // namespace

Result<Contents> contents_of(const Folders& folders) {
  std::set<std::string> pinned = TRY(pins(folders));
  return Look(folders, std::move(pinned)).all();
}

void ask_who_fetches(const Folders& folders, Contents& contents) {
  for (Contents::Part& part : contents.parts) {
    const std::string name = part_file(part.digest);
    const int fd = ::openat(folders.making->fd(), name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) continue;
    const OpenFile file(fd);
    part.held = !try_lock(fd) && errno == EWOULDBLOCK;
  }
}

}  // namespace weightfs
