// The servers of a blob: which of them are asked for it, and how.
#pragma once

#include <cstdint>
#include <vector>

#include "base/blobs.h"
#include "cache/core/store_core.h"
#include "cache/download/origin.h"
#include "cache/download/remote_file.h"

namespace weightfs::blobs {

using Origins = std::vector<download::Origin>;

bool is_fetchable(const StoreCore& store, const Origins& origins);

/// The first origin that is not a mirror; null if there is none.
const download::Origin* server_in(const Origins& origins);

/// Whether a blob of `size` bytes is read by ranges, if its server sends any.
bool may_be_ranged(const StoreCore& store, uint64_t size, const Origins& origins);

/// The file on the server of a blob that may be ranged. No request is sent if its version was seen before: the digest
/// names the bytes. Null if the blob is to be downloaded as a whole: a mirror has it, whose bytes must be verified
/// first, or the server has sent no ranges for FetchSettings::wait_for_ranges. Fails as open_remote_file().
Result<download::RemoteFilePtr> open_ranged_file(StoreCore& store, const BlobRef& ref, uint64_t size,
                                                 const Origins& origins);

/// Whether nothing can be downloaded, and an earlier process has cached blocks of a blob that is not ranged: perhaps
/// its header.
bool has_blocks_offline(StoreCore& store, const BlobRef& ref, uint64_t size, const Origins& origins);

/// Whether the unverified header of a blob, which the cache has, is from the first of these servers.
bool is_header_of_server(StoreCore& store, const BlobRef& ref, const Origins& origins);

/// Notes that it is. What another server has sent before has to be verified.
void save_server_of_header(StoreCore& store, const BlobRef& ref, const Origins& origins);

/// After a response that cannot be of this file: the next open_ranged_file() requests its version.
void forget_version(StoreCore& store, const BlobRef& ref, uint64_t size, const Origins& origins);

/// The error when nothing can be downloaded; `reason` says why there is no local copy.
Error not_available(StoreCore& store, const BlobRef& ref, const Error& reason);

}  // namespace weightfs::blobs
