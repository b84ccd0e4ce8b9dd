// Finds where a blob comes from, and its size.
#pragma once

#include "base/blobs.h"
#include "cache/blobs/blob_origins.h"
#include "cache/blobs/live_blobs.h"

namespace weightfs::blobs {

/// As BlobStore::resolve_from().
Result<ResolvedBlob> resolve_blob(const LiveBlobsPtr& live, const BlobRef& ref, Origins origins);

}  // namespace weightfs::blobs
