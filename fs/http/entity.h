// What identifies the bytes of a file of the tree: its entity tag.
#pragma once

#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

#include "base/digest.h"
#include "fs/tree/forest.h"

namespace weightfs::httpd {

/// The entity tags of a forest. Callable from any thread.
class EntityTags {
 public:
  /// `layout`: what decides about the files of a view besides the tensor, such as the version of weightfs.
  EntityTags(const Forest& forest, std::string layout);

  /// The entity tag of a file: the SHA-256 of its bytes if that is stated, else a hash of the identity of its bytes,
  /// for a view of a tensor of that tensor's bytes. Other files, which are generated, have a tag valid for this
  /// process: another one may generate different bytes. A tag lives as long as the inode number, even when verification
  /// changes the blob's identity; a file that is replaced has a new number.
  std::string tag_of(Ino ino, const Source& source, const std::optional<Digest>& digest) const;

 private:
  std::string identity_of(Ino ino, const Source& source) const;

  static constexpr size_t kMaxKnown = 50'000;

  const Forest& forest_;
  const std::string layout_;
  const std::string process_;  // random
  mutable std::mutex mutex_;   // guards the next one
  mutable std::unordered_map<Ino, std::string> known_;
};

}  // namespace weightfs::httpd
