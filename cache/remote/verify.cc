#include "cache/remote/verify.h"

#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "base/cancel.h"
#include "base/digest.h"

namespace weightfs::blobs {
namespace {

using namespace store;

constexpr int kMaxTries = 4;  // to hold a file that others evict, and to hash one whose blocks others drop

constexpr uint64_t kHashStep = 1 << 20;  // bytes that are hashed at a time

// Reserves the space for all blocks, and prevents their eviction.
Result<void> hold_space(const RemoteSource& source) {
  for (int attempts = 0;; ++attempts) {
    const auto [file, blob] = TRY(source.open());
    if (blob != nullptr) return {};
    auto held = file->hold();
    if (held || held.error().code != Code::not_found || attempts == kMaxTries) return held;
    std::this_thread::sleep_for(kOtherProcessCheck);  // another process is evicting it
  }
}

// While it exists, the status has how many bytes are hashed.
class Progress {
 public:
  explicit Progress(const RemoteSource& source) : source_(source) {}
  ~Progress() { source_.set_comparing(std::nullopt); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  void set(uint64_t bytes) { source_.set_comparing(bytes); }

 private:
  const RemoteSource& source_;
};

// Whether the map has all blocks now. `cache verify` may have dropped one since it was read.
Result<bool> are_all_present(const RemoteSource& source) {
  const auto [file, blob] = TRY(source.open());
  return blob != nullptr || TRY(file->present_bytes(0, source.size())) == source.size();
}

// What readers have read in order is not hashed again.
Result<Digest> hash(const RemoteSource& source) {
  const uint64_t size = source.size();
  const bool is_present = TRY(are_all_present(source));
  const uint64_t generation = source.generation();
  Delivery& delivery = *source.delivery();
  if (const auto digest = is_present ? delivery.digest_of(generation) : std::nullopt) return *digest;
  auto begun = is_present ? delivery.take(generation) : std::nullopt;
  Sha256 hash = begun ? std::move(begun->hash) : Sha256();
  std::vector<std::byte> buffer(static_cast<size_t>(std::min(kHashStep, size)));
  Progress progress(source);
  for (uint64_t at = begun ? begun->size : 0; at < size;) {
    if (is_cancelled()) return failure(Code::resource, "cancelled");
    progress.set(at);
    const auto bytes = std::span(buffer).first(static_cast<size_t>(std::min<uint64_t>(buffer.size(), size - at)));
    TRY(source.read_through(at, bytes, std::min(size, at + ReadAhead::kMaxWindow)));
    hash.update(bytes);
    at += bytes.size();
  }
  return hash.finish();
}

// When all transfers have ended, so that the verified bytes do not change.
Result<BlobHandle> publish(const RemoteSource& source, const BlockFilePtr& file) {
  TRY_VOID(file->flush());
  return source.ranges().when_idle(file, [&] {
    auto handle = source.store().backend().publish_blocks(file, *source.name(), *source.name()->digest);
    if (handle) source.set_published();
    return handle;
  });
}

tl::unexpected<Error> not_stored(const Error& error) { return failure(Code::io, error.message); }

// Drops the blocks, whose digest is `found`. Fails with mismatch unless they are to be downloaded again.
Result<void> drop_mismatched(const RemoteSource& source, const Digest& found) {
  Error mismatch{Code::mismatch,
                 fmt::format("digest mismatch: found {}, expected {}", found.hex(), source.name()->digest->hex())};
  if (source.drop_blocks(mismatch)) return {};
  return tl::unexpected(std::move(mismatch));
}

// Publishes the hashed bytes, which are in `file`. Nothing if they were wrong, and are to be downloaded again.
Result<std::optional<BlobHandle>> publish_or_drop(const RemoteSource& source, const BlockFilePtr& file,
                                                  const Digest& found, const OnMatch& on_match) {
  const Digest& expected = *source.name()->digest;
  if (found != expected) {
    TRY_VOID(drop_mismatched(source, found));
    return std::nullopt;
  }
  source.set_verified();
  if (on_match) on_match();
  auto published = publish(source, file);
  file->release();
  if (published) return std::move(*published);
  if (published.error().code == Code::unsupported) return BlobHandle{};
  if (BlobHandle others = source.store().backend().find(*source.name(), source.size()))
    return others;  // another process was faster
  return not_stored(published.error());
}

}  // namespace

Result<BlobHandle> verify(const RemoteSource& source, const OnMatch& on_match) {
  for (int dropped = 0; dropped < kMaxTries;) {
    if (const auto held = hold_space(source); !held) {
      source.remove_if_empty();
      if (held.error().code == Code::resource) return tl::unexpected(held.error());
      return not_stored(held.error());
    }
    const uint64_t generation = source.generation();
    const auto found = hash(source);
    const auto [file, blob] = TRY(source.open());
    if (blob != nullptr) return BlobHandle{blob, *source.name()->digest};
    if (!found) {
      source.ranges().release_space(file);
      source.remove_if_empty();
      return tl::unexpected(found.error());
    }
    // Another process found that they do not match, and dropped them: not all of the hashed bytes are in this file.
    if (generation != source.generation()) {
      ++dropped;
      continue;
    }
    if (auto ended = TRY(publish_or_drop(source, file, *found, on_match))) return std::move(*ended);
    dropped = 0;
  }
  return not_stored({Code::resource, "other processes keep dropping its blocks"});
}

Result<bool> compare_delivered(const RemoteSource& source) {
  Delivery& delivery = *source.delivery();
  const uint64_t generation = source.generation();
  const auto found = delivery.digest();
  if (!found) return false;
  if (*found != *source.name()->digest) {
    TRY_VOID(drop_mismatched(source, *found));
    return false;
  }
  // Those that were evicted meanwhile are compared again before they are served again.
  if (delivery.digest_of(generation))
    source.set_verified();
  else
    delivery.restart_hash();
  return true;
}

Result<void> verify_if_complete(const RemoteSource& source) {
  const auto [file, blob] = TRY(source.open());  // fails if the comparison has
  if (blob != nullptr || !TRY(file->is_complete())) return {};
  TRY(verify(source));
  return {};
}

}  // namespace weightfs::blobs
