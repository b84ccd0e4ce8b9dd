// Blobs that are known by their digest: looked for at hand (the store, beside the container, in other programs'
// stores), else fetched, in either case proved before they are served.
#pragma once

#include <memory>
#include <vector>

#include "cache/blobs/store.h"

namespace weightfs {

/// What Blobs::named() and BlobStore::fetched() promise.
Result<Found> named_blob(const std::shared_ptr<Store>& store, const Wanted& wanted, std::vector<Origin> origins);

/// What Blobs::is_at_hand() promises.
bool is_at_hand(Store& store, const Wanted& wanted);

}  // namespace weightfs
