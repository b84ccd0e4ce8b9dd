#include "serve/mirror/open_files.h"

#include <algorithm>
#include <utility>

namespace weightfs::mirror {

SourcePtr OpenFiles::find(const std::string& key) {
  SourcePtr dropped;  // destroyed without the lock
  const std::scoped_lock lock(mutex_);
  return use(key, dropped);
}

SourcePtr OpenFiles::keep(const std::string& key, SourcePtr bytes) {
  SourcePtr dropped, oldest;
  const std::scoped_lock lock(mutex_);
  if (SourcePtr before = use(key, dropped)) return before;
  if (opened_.size() == kMost) {
    oldest = std::move(opened_.back().bytes);
    opened_.pop_back();
  }
  opened_.insert(opened_.begin(), {key, std::move(bytes)});
  return opened_.front().bytes;
}

SourcePtr OpenFiles::use(const std::string& key, SourcePtr& dropped) {
  const auto found = std::ranges::find(opened_, key, &Opened::key);
  if (found == opened_.end()) return nullptr;
  if (found->bytes->verification() == VerifiedBy::mismatch) {
    dropped = std::move(found->bytes);
    opened_.erase(found);
    return nullptr;
  }
  std::rotate(opened_.begin(), found, found + 1);
  return opened_.front().bytes;
}

}  // namespace weightfs::mirror
