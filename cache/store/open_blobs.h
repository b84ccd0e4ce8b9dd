// The finished blobs that a backend keeps open.
#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <list>
#include <string>
#include <utility>

#include "cache/store/file_range.h"

namespace weightfs::store {

/// The most recently used blobs, by the names of their readers. Not thread-safe: the owner locks it.
class OpenBlobs {
  using Entry = std::pair<std::string, BlobHandle>;

 public:
  /// Blobs that are kept no longer. To be destroyed without the lock: to close a deleted file may take long.
  using Dropped = std::list<Entry>;

  explicit OpenBlobs(size_t max) : max_(max) {}

  /// The blob that was kept under this name.
  BlobHandle find(const std::string& name) {
    return find_if([&](const Entry& entry) { return entry.first == name; });
  }
  /// The blob with this digest, under any name.
  BlobHandle find(const Digest& digest) {
    return find_if([&](const Entry& entry) { return entry.second.digest == digest; });
  }

  [[nodiscard]] Dropped keep(const std::string& name, BlobHandle blob) {
    Dropped dropped = take_if([&](const Entry& entry) { return entry.first == name; });
    entries_.emplace_front(name, std::move(blob));
    if (entries_.size() > max_) dropped.splice(dropped.end(), entries_, std::prev(entries_.end()));
    return dropped;
  }

  template <class Drops>
  [[nodiscard]] Dropped drop_if(Drops drops) {
    return take_if([&](const Entry& entry) { return drops(entry.second); });
  }

 private:
  template <class Matches>
  Dropped take_if(Matches matches) {
    Dropped taken;
    for (auto entry = entries_.begin(); entry != entries_.end();) {
      const auto next = std::next(entry);
      if (matches(*entry)) taken.splice(taken.end(), entries_, entry);
      entry = next;
    }
    return taken;
  }

  template <class Matches>
  BlobHandle find_if(Matches matches) {
    const auto found = std::find_if(entries_.begin(), entries_.end(), matches);
    if (found == entries_.end()) return {};
    entries_.splice(entries_.begin(), entries_, found);
    return found->second;
  }

  const size_t max_;
  std::list<Entry> entries_;  // most recently used first
};

}  // namespace weightfs::store
