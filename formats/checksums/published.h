// How a model was published in a registry or a store: the manifests that name its blobs. They are served again byte for
// byte (serve/registry/).
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/digest.h"
#include "base/source.h"

namespace weightfs {

/// A manifest, or an index of manifests.
struct PublishedManifest {
  Digest digest;                       ///< of its bytes
  std::vector<std::string> tags = {};  ///< those that the container states, as they are; none: it has no names
};

struct Published {
  std::vector<PublishedManifest> manifests;  ///< in the order of the container; never empty
  /// Opens a manifest or a blob, whose bytes are verified when they are read. Fails with not_found, and as opening it
  /// does. Null if all of them are parts of the model, with their digests.
  std::function<Result<SourcePtr>(const Digest&)> open = {};
};

}  // namespace weightfs
