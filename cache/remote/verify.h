// The comparison of a file on a server with its digest, and its publication as a blob.
#pragma once

#include <functional>

#include "cache/remote/remote_source.h"
#include "cache/store/blob_backend.h"

namespace weightfs::blobs {

/// Is called when all bytes have matched, before they are published.
using OnMatch = std::function<void()>;

/// Downloads absent blocks, compares the digest of all bytes, which is known (RemoteSource::has_digest()), and
/// publishes them as that blob. Prevents eviction meanwhile. The result is empty if the server states no version: such
/// a file is not published. Fails with mismatch if the digest differs, with io if the cache cannot publish the blob,
/// with resource if it has no space for it, or if the thread is cancelled, and as the download does.
///
/// On a mismatch all blocks are removed from the cache. If no bytes were served before, and another origin may have the
/// right ones, they are downloaded again. Otherwise reads fail from then on, until RemoteSource::accept(), so that no
/// reader downloads wrong bytes again.
Result<store::BlobHandle> verify(const RemoteSource& source, const OnMatch& on_match = {});

/// Compares the digest if readers have read all bytes in order: true. Nothing is read, and nothing is published. False
/// if it is not known, or if the blocks did not match, and the bytes are to be read again. Fails with mismatch.
Result<bool> compare_delivered(const RemoteSource& source);

/// Compares the digest if all blocks are cached, and publishes them. Fails as verify() does, also if the comparison has
/// failed before.
Result<void> verify_if_complete(const RemoteSource& source);

}  // namespace weightfs::blobs
