#include "fs/fuse/directory_reader.h"

#include <sys/stat.h>

#include <algorithm>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "fs/fuse/interrupts.h"

namespace weightfs::fuse {
namespace {

// The request that functions which add an entry take; libfuse does not use it.
constexpr fuse_req_t kNoRequest = nullptr;

// What the kernel needs to know of an entry without attributes.
struct stat type_of(Ino ino, NodeKind kind) {
  struct stat known {};
  known.st_ino = ino;
  known.st_mode = S_IFREG;
  if (kind == NodeKind::directory || kind == NodeKind::tree) known.st_mode = S_IFDIR;
  if (kind == NodeKind::link) known.st_mode = S_IFLNK;
  return known;
}

// An entry of a directory, and the offset after it.
struct Child {
  uint32_t entry;
  uint64_t offset;
};

// The children after an offset. In a directory that can change the offset is made of the inode number, so that a reader
// gets each unchanged entry once, although others are added and removed between its requests.
class Children {
 public:
  Children(const Forest::Listing& all, uint64_t offset) : all_(all), next_(all.can_change() ? 0 : offset - 2) {
    if (!all.can_change()) return;
    for (uint32_t i = 0; i < all.count; ++i)
      if (const uint64_t after = all.ino_of(i) + 2; after > offset) sorted_.push_back({i, after});
    std::ranges::sort(sorted_, {}, &Child::offset);
  }

  std::optional<Child> next() {
    const uint64_t i = next_++;
    if (all_.can_change()) return i < sorted_.size() ? std::optional(sorted_[i]) : std::nullopt;
    return i < all_.count ? std::optional(Child{static_cast<uint32_t>(i), i + 3}) : std::nullopt;
  }

 private:
  const Forest::Listing& all_;
  uint64_t next_;
  std::vector<Child> sorted_;  // of a directory that can change
};

}  // namespace

bool Entries::add(const char* name, const fuse_entry_param& entry, off_t next) {
  const size_t needed = fuse_add_direntry_plus(kNoRequest, bytes_.get() + used_, size_ - used_, name, &entry, next);
  is_full_ = needed > size_ - used_;
  if (is_full_) return false;
  used_ += needed;
  end_ = next;
  return true;
}

// A file of unknown size has no attributes.
fuse_entry_param DirectoryReader::entry_of(Ino ino, NodeKind kind, bool has_attributes) const {
  if (const auto known = has_attributes ? forest_.known_attributes(ino) : std::nullopt) return entry_of_(ino, *known);
  fuse_entry_param without{};  // inode 0
  without.attr = type_of(ino, kind);
  return without;
}

bool DirectoryReader::has_attributes(const Forest::Listing& all, Ino directory) const {
  if (all.count <= large_) return true;
  return directory == large_directory_ && (is_examined_ || Clock::now() - last_lookup_.load() < recent_);
}

Result<Entries> DirectoryReader::make(const Forest::Listing& all, const DirectoryPart& part, bool has_attributes) {
  Entries entries(part.size);
  const auto add = [&](const char* name, Ino ino, NodeKind kind, off_t next) {
    const bool is_directory = kind == NodeKind::directory || kind == NodeKind::tree;
    const bool is_child = next > 2;
    return entries.add(name, entry_of(ino, kind, is_child && (is_directory || has_attributes)), next);
  };
  bool has_space = true;
  if (part.offset < 1) has_space = add(".", part.directory, NodeKind::directory, 1);
  if (part.offset < 2 && has_space) has_space = add("..", TRY(forest_.parent(part.directory)), NodeKind::directory, 2);
  std::string name;  // libfuse needs a terminated string
  Children children(all, static_cast<uint64_t>(std::max<off_t>(part.offset, 2)));
  while (const auto child = has_space ? children.next() : std::nullopt) {
    const Node node = all.tree->node(all.first + child->entry);
    name = node.name();
    has_space = add(name.c_str(), all.ino_of(child->entry), node.kind, static_cast<off_t>(child->offset));
  }
  return entries;
}

Result<Entries> DirectoryReader::read(const DirectoryPart& part) {
  const Forest::Listing all = TRY(forest_.list(part.directory));
  const bool has_attributes = this->has_attributes(all, part.directory);
  if (!has_attributes) {
    if (large_directory_.exchange(part.directory) != part.directory) {
      parts_ = lookups_ = 0;
      is_examined_ = false;
    }
    ++parts_;
  }
  {
    const std::scoped_lock lock(mutex_);
    if (next_ && next_->part == part && next_->has_attributes == has_attributes)
      return std::move(std::exchange(next_, std::nullopt)->entries);
  }
  return make(all, part, has_attributes);
}

bool DirectoryReader::looked_up(Ino directory) {
  constexpr uint32_t kExamined = 64;  // lookups
  if (directory != large_directory_) return false;
  last_lookup_ = Clock::now();
  if (++lookups_ != kExamined) return false;
  is_examined_ = true;
  return parts_ > 1;  // ls(1) looks up the names of one part before it reads the next
}

void DirectoryReader::read_next(const DirectoryPart& part, const Entries& entries) noexcept {
  if (!entries.is_full()) return;
  try {
    // The part of a directory that can change would be an old one.
    const auto all = forest_.list(part.directory);
    if (!all || all->can_change()) return;
    const DirectoryPart next{part.directory, entries.end(), part.size};
    const bool has_attributes = this->has_attributes(*all, part.directory);
    auto made = make(*all, next, has_attributes);
    if (!made) return;  // the request for it finds the reason
    const std::scoped_lock lock(mutex_);
    next_.emplace(Ahead{next, has_attributes, std::move(*made)});
  } catch (const std::exception&) {
    // Out of memory. The part is made when it is requested.
  }
}

}  // namespace weightfs::fuse
