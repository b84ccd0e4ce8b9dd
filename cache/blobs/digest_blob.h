// A blob that is named by its digest: in the cache, beside its container, in the store of another program, or on
// servers.
#pragma once

#include <cstdint>
#include <vector>

#include "base/blobs.h"
#include "cache/blobs/live_blobs.h"
#include "cache/download/origin.h"

namespace weightfs::blobs {

/// The blob of `size` bytes. It is looked for, downloaded and verified when it is read.
ResolvedBlob digest_blob(LiveBlobsPtr live, const BlobRef& ref, uint64_t size, std::vector<download::Origin> origins);

}  // namespace weightfs::blobs
