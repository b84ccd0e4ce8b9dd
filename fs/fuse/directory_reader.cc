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

bool Entries::added(size_t needed, off_t next) {
  is_full_ = needed > size_ - used_;
  if (is_full_) return false;
  used_ += needed;
  end_ = next;
  return true;
}

bool Entries::add(const char* name, Ino ino, NodeKind kind, off_t next) {
  const struct stat known = type_of(ino, kind);
  return added(fuse_add_direntry(kNoRequest, bytes_.get() + used_, size_ - used_, name, &known, next), next);
}

bool Entries::add(const char* name, const fuse_entry_param& entry, off_t next) {
  return added(fuse_add_direntry_plus(kNoRequest, bytes_.get() + used_, size_ - used_, name, &entry, next), next);
}

// Nothing for files of unknown size.
std::optional<fuse_entry_param> DirectoryReader::attributes_of(Ino ino) const {
  const auto known = forest_.known_attributes(ino);
  return known ? std::optional(entry_of_(ino, *known)) : std::nullopt;
}

Result<Entries> DirectoryReader::make(const DirectoryPart& part) {
  const Forest::Listing all = TRY(forest_.list(part.directory));
  const bool files_have_attributes = part.offset > 0 || are_attributes_used();
  if (!files_have_attributes) without_attributes_ = part.directory;
  Entries entries(part.size);
  const auto add = [&](const char* name, Ino ino, NodeKind kind, off_t next) {
    if (part.form == EntryForm::names) return entries.add(name, ino, kind, next);
    const bool is_child = next > 2;
    const bool is_directory = kind == NodeKind::directory || kind == NodeKind::tree;  // readers enter it
    const bool has_attributes = is_child && (is_directory || files_have_attributes);
    fuse_entry_param without{};  // inode 0
    without.attr = type_of(ino, kind);
    const auto known = has_attributes ? attributes_of(ino) : std::nullopt;
    return entries.add(name, known.value_or(without), next);
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
  if (part.offset > 0) later_form_ = part.form;
  // The kernel requests a later part with attributes if names of the part before were looked up.
  if (part.offset > 0 && part.form == EntryForm::attributes) attributes_used_ = Clock::now();
  {
    const std::scoped_lock lock(mutex_);
    if (next_ && next_->first == part) return std::move(std::exchange(next_, std::nullopt)->second);
  }
  return make(part);
}

void DirectoryReader::looked_up(Ino directory) {
  if (directory == without_attributes_) attributes_used_ = Clock::now();
}

void DirectoryReader::read_next(const DirectoryPart& part, const Entries& entries) noexcept {
  if (!entries.is_full()) return;
  try {
    // The part of a directory that can change would be an old one.
    if (const auto all = forest_.list(part.directory); !all || all->can_change()) return;
    DirectoryPart next{part.directory, entries.end(), part.size, part.form};
    if (part.offset == 0) next.form = later_form_;
    auto made = make(next);
    if (!made) return;  // the request for it finds the reason
    const std::scoped_lock lock(mutex_);
    next_.emplace(next, std::move(*made));
  } catch (const std::exception&) {
    // Out of memory. The part is made when it is requested.
  }
}

}  // namespace weightfs::fuse
