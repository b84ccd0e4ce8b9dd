// What identifies the bytes of a file of the tree: its entity tag, its time and its digest.
#pragma once

#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "base/digest.h"
#include "base/os/descriptor.h"
#include "fs/forest.h"
#include "fs/http/protocol/conditions.h"

namespace weightfs::httpd {

/// The entity tags of a forest. Callable from any thread.
class EntityTags {
 public:
  /// `layout`: what decides about generated files besides the model, such as the version of weightfs.
  EntityTags(const Forest& forest, std::string layout);

  /// The entity tag of a file: the SHA-256 of its bytes if that is known, else a hash of the identity of the bytes, or
  /// of the model and the path for a file that is generated from a model. The tag of bytes that have no identity, such
  /// as those of some servers, is valid as long as this process runs.
  std::string tag_of(Ino ino, const Source& source, const std::optional<Digest>& digest) const;

 private:
  std::string identity_of(const ModelPtr& model) const;

  const Forest& forest_;
  const std::string layout_;
  const std::string process_;  // random
  mutable std::mutex mutex_;   // guards the rest
  // Identities of the models that were used last, because a model may have a million tensors.
  mutable std::list<std::pair<std::weak_ptr<const Model>, std::string>> models_;
};

}  // namespace weightfs::httpd
