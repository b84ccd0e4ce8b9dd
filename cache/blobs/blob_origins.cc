#include "cache/blobs/blob_origins.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>

#include "cache/blobs/saved_texts.h"
#include "cache/download/mirror_scheduler.h"

namespace weightfs::blobs {
namespace {

// The key for the bytes with this digest at any URL of the server.
std::string version_key(const download::Origin& server, const BlobRef& ref, uint64_t size) {
  return fmt::format("version of {} at {}", store::blob_identity(ref.digest, size), http::origin_of(server.url));
}

std::string header_key(const BlobRef& ref) { return fmt::format("server of the header of {}", ref.digest.hex()); }

std::string first_server(const Origins& origins) { return origins.empty() ? "" : http::origin_of(origins.front().url); }

// Whether a mirror has a file of this size.
bool has_mirror_copy(StoreCore& store, const BlobRef& ref, uint64_t size, const Origins& origins) {
  std::vector<download::Origin> mirrors = origins;
  std::erase_if(mirrors, [](const download::Origin& origin) { return !origin.is_mirror; });
  if (mirrors.empty() || store.fetching().http == nullptr) return false;
  download::RetryPolicy once = store.fetching().options;
  once.retries = 0;
  once.waits_for_network = false;
  once.used_up = nullptr;
  download::RemoteFile file(store.fetching().http, ref.name, std::move(mirrors), std::nullopt, once);
  const auto reported = file.query_size(store.stop_token());
  return reported.has_value() && *reported == size;
}

// The file on its server when that has begun to send ranges; null after FetchSettings::wait_for_ranges.
Result<download::RemoteFilePtr> wait_for_ranges(StoreCore& store, const BlobRef& ref, uint64_t size,
                                                const download::Origin& server) {
  const auto until = std::chrono::steady_clock::now() + store.fetching().wait_for_ranges;
  download::RetryPolicy policy = store.fetching().options;
  policy.retries = std::numeric_limits<int>::max();
  for (download::Backoff backoff(policy, *store.fetching().http);;) {
    const auto pause = TRY(backoff.pause({Code::resource, "no ranges"}, {}));
    if (std::chrono::steady_clock::now() + pause >= until) return nullptr;
    if (!download::interruptible_sleep(pause, store.stop_token())) return failure(Code::resource, "cancelled");
    auto remote = TRY(open_remote_file(store, server, ref.name, size));
    if (remote->has_ranges() != false) return remote;
  }
}

}  // namespace

bool is_fetchable(const StoreCore& store, const Origins& origins) {
  return store.fetching().http != nullptr && !origins.empty();
}

const download::Origin* server_in(const Origins& origins) {
  const auto found = std::ranges::find(origins, false, &download::Origin::is_mirror);
  return found == origins.end() ? nullptr : &*found;
}

bool may_be_ranged(const StoreCore& store, uint64_t size, const Origins& origins) {
  const FetchSettings& fetching = store.fetching();
  const download::Origin* const server = server_in(origins);
  return size > kMaxVerifiedFirst && !fetching.verify_whole && server != nullptr && server->trust == http::Trust::user;
}

// Ranges come from one server: another one may have other bytes, and the digest verifies only all of them.
Result<download::RemoteFilePtr> open_ranged_file(StoreCore& store, const BlobRef& ref, uint64_t size,
                                                 const Origins& origins) {
  if (has_mirror_copy(store, ref, size, origins)) return nullptr;
  TRY_VOID(store.check_open());
  const download::Origin& server = *server_in(origins);
  const FetchSettings& fetching = store.fetching();
  const std::string key = version_key(server, ref, size);
  if (auto known = download::parse_version(load_text(store, key).value_or("")); known && known->size == size)
    return download::RemoteFile::of_digest(fetching.http, ref.name, server, std::move(*known), fetching.options);
  auto remote = TRY(open_remote_file(store, server, ref.name, size));
  if (remote->has_ranges() == false) return wait_for_ranges(store, ref, size, server);
  if (remote->version().is_pinned()) save_text(store, key, download::version_text(remote->version()));
  return remote;
}

bool has_blocks_offline(StoreCore& store, const BlobRef& ref, uint64_t size, const Origins& origins) {
  const download::Origin* const server = server_in(origins);
  if (store.fetching().http != nullptr || server == nullptr || server->trust != http::Trust::user) return false;
  const std::string identity = store::blob_identity(ref.digest, size);
  const auto file = store.backend().open_blocks(identity, size);
  if (file && store::BlockFile::present_bytes((*file)->files()) > 0) return true;
  store.backend().remove_blocks(identity, store::BlockFile::Evict::unheld);
  return false;
}

void forget_version(StoreCore& store, const BlobRef& ref, uint64_t size, const Origins& origins) {
  if (const download::Origin* const server = server_in(origins)) save_text(store, version_key(*server, ref, size), "");
}

bool is_header_of_server(StoreCore& store, const BlobRef& ref, const Origins& origins) {
  return load_text(store, header_key(ref)) == first_server(origins);
}

void save_server_of_header(StoreCore& store, const BlobRef& ref, const Origins& origins) {
  save_text(store, header_key(ref), first_server(origins));
}

Error not_available(StoreCore& store, const BlobRef& ref, const Error& reason) {
  if (reason.code != Code::not_found) return reason;
  const FetchSettings& fetching = store.fetching();
  const auto error = [&](Code code, std::string_view why) {
    return Error{code, fmt::format("{}: not cached, and {}", ref.name, why)};
  };
  if (fetching.http != nullptr || (fetching.had_no_links && ref.urls.empty()))
    return error(Code::not_found, "the container has no URL for it");
  return error(Code::network, fetching.had_no_links ? "no source had links when the process started; start it again"
                                                    : "downloads are disabled by --offline");
}

}  // namespace weightfs::blobs
