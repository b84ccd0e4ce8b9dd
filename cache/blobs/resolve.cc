#include "cache/blobs/resolve.h"

#include <fmt/core.h>

#include <utility>

#include "base/cancel.h"
#include "cache/blobs/digest_blob.h"
#include "cache/blobs/local_copies.h"
#include "cache/blobs/saved_texts.h"

namespace weightfs::blobs {
namespace {

// Whether ranges of a blob may be cached, although nothing can be downloaded: the version on its server is known, or
// its header was read before.
bool has_known_ranges(StoreCore& store, const BlobRef& ref, const Origins& origins) {
  if (!ref.size) return false;
  if (!may_be_ranged(store, *ref.size, origins)) return has_blocks_offline(store, ref, *ref.size, origins);
  return open_ranged_file(store, ref, *ref.size, origins).has_value();
}

// The size of a blob that must be downloaded, as reported by servers. If none reports it, or only mirrors do, which may
// have other bytes, all of it is downloaded.
Result<uint64_t> fetched_size(LiveBlobs& live, const BlobRef& ref, const Origins& origins) {
  StoreCore& store = *live.store();
  download::RemoteFile remote(store.fetching().http, ref.name, origins, std::nullopt, store.fetching().options);
  if (const auto reported = TRY(remote.query_size(store.stop_token(), download::RemoteFile::SizeBy::server)))
    return *reported;
  store.stats().record_miss(ref.digest);
  return TRY(live.download(ref, std::nullopt, origins)->wait()).range->size();
}

Result<uint64_t> size_of(LiveBlobs& live, const BlobRef& ref, const Origins& origins) {
  if (ref.size) return *ref.size;
  StoreCore& store = *live.store();
  if (const store::BlobHandle handle = cached_blob(store, ref)) return handle.range->size();
  const auto copy = verified_copy(store, ref);
  if (copy) return copy->bytes->size();
  if (is_fetchable(store, origins)) return fetched_size(live, ref, origins);
  return tl::unexpected(not_available(store, ref, copy.error()));
}

}  // namespace

Result<ResolvedBlob> resolve_blob(const LiveBlobsPtr& live, const BlobRef& ref, Origins origins) {
  StoreCore& store = *live->store();
  for (const std::string& url : ref.urls) origins.push_back({url, http::Trust::container});
  const std::string hex = ref.digest.hex();
  for (const std::string& cache : store.fetching().cache_mirrors)
    origins.insert(origins.begin(), {.url = fmt::format("{}/{}/{}", cache, hex.substr(0, 2), hex), .is_mirror = true});
  store.stats().add(ref, ref.size);
  if (!is_fetchable(store, origins) && !cached_blob(store, ref)) {
    const LocalCopies copies = find_local_copies(store, ref);
    if (copies.found.empty() && !has_known_ranges(store, ref, origins))
      return tl::unexpected(not_available(store, ref, copies.mismatch.value_or(Error{Code::not_found, ""})));
  }
  const auto size = size_of(*live, ref, origins);
  if (!size) {
    if (!is_cancelled()) store.stats().record_failure(ref.digest, size.error());
    return tl::unexpected(size.error());
  }
  store.stats().add(ref, *size);
  return digest_blob(live, ref, *size, std::move(origins));
}

}  // namespace weightfs::blobs
