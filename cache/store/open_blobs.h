// The finished blobs that a backend keeps open.
#pragma once

#include <algorithm>
#include <cstddef>
#include <list>
#include <string>
#include <utility>

#include "cache/store/file_range.h"

namespace weightfs::store {

/// The most recently used blobs, by the names of their readers. Its user locks it.
class OpenBlobs {
 public:
  explicit OpenBlobs(size_t max) : max_(max) {}

  /// The blob that was kept under this name.
  BlobHandle find(const std::string& name) {
    return find_if([&](const Entry& entry) { return entry.first == name; });
  }
  /// The blob with this digest, under any name.
  BlobHandle find(const Digest& digest) {
    return find_if([&](const Entry& entry) { return entry.second.digest == digest; });
  }

  void keep(const std::string& name, BlobHandle blob) {
    entries_.remove_if([&](const Entry& entry) { return entry.first == name; });
    entries_.emplace_front(name, std::move(blob));
    if (entries_.size() > max_) entries_.pop_back();
  }

  template <class Drops>
  void drop_if(Drops drops) {
    entries_.remove_if([&](const Entry& entry) { return drops(entry.second); });
  }

 private:
  using Entry = std::pair<std::string, BlobHandle>;

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
