// Blobs that are known by digest: found locally (cache, beside the container, external stores) or downloaded, and
// verified before they are served.
#pragma once

#include <memory>
#include <vector>

#include "cache/blobs/store_core.h"

namespace weightfs::blobs {

/// Implements Blobs::resolve() and BlobStore::resolve_from().
Result<ResolvedBlob> resolve_blob(const std::shared_ptr<StoreCore>& store, const BlobRef& ref,
                                  std::vector<download::Origin> origins);

/// Implements Blobs::is_local().
bool is_local(StoreCore& store, const BlobRef& ref);

}  // namespace weightfs::blobs
