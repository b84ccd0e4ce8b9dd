// .weightfs/status.json: what the mount fetched, and what it has.
#pragma once

#include "cache/blob_store.h"
#include "fs/tree.h"

namespace weightfs {

inline constexpr const char* kStatusDirectory = ".weightfs";

/// The tree that is hidden under that name in a mount's root.
TreePtr status_tree(const BlobStorePtr& store);

}  // namespace weightfs
