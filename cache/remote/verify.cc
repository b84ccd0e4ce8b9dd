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
#include "base/parallel.h"

namespace weightfs::blobs {
namespace {

using namespace store;

constexpr int kMaxTries = 4;  // to hold a file that others evict, and to hash one whose blocks others drop

constexpr uint64_t kHashStep = 1 << 20;  // bytes that are hashed at a time

// What one pass over all bytes computes.
struct Hashes {
  Digest digest;
  std::unique_ptr<ListWriter> list;  // null if the blob gets none
};

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

// The digest, and the block list, from the same buffer by two threads.
Result<Hashes> hash(const RemoteSource& source) {
  const uint64_t size = source.size();
  Sha256 hash;
  Hashes hashes;
  hashes.list = source.store().backend().start_list(size);
  std::vector<std::byte> buffer(static_cast<size_t>(std::min(kHashStep, size)));
  for (uint64_t at = 0; at < size;) {
    if (is_cancelled()) return failure(Code::resource, "cancelled");
    const auto bytes = std::span(buffer).first(static_cast<size_t>(std::min<uint64_t>(buffer.size(), size - at)));
    TRY(source.read_through(at, bytes, std::min(size, at + ReadAhead::kMaxWindow)));
    const auto add = [&](uint64_t part) -> Result<void> {
      if (part == 1) {
        hashes.list->add(bytes);
      } else {
        hash.update(bytes);
      }
      return {};
    };
    TRY_VOID(in_parallel(hashes.list == nullptr ? 1 : 2, 2, add));
    at += bytes.size();
  }
  hashes.digest = hash.finish();
  return hashes;
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

// Publishes the hashed bytes, which are in `file`. Nothing if they were wrong, and are to be downloaded again.
Result<std::optional<BlobHandle>> publish_or_drop(const RemoteSource& source, const BlockFilePtr& file, Hashes hashes) {
  const Digest& expected = *source.name()->digest;
  if (hashes.digest != expected) {
    Error mismatch{Code::mismatch,
                   fmt::format("digest mismatch: found {}, expected {}", hashes.digest.hex(), expected.hex())};
    hashes.list = nullptr;  // its file is removed before the readers see the mismatch
    if (source.may_repeat()) {
      source.drop_blocks(std::nullopt);
      return std::nullopt;
    }
    source.drop_blocks(mismatch);
    return tl::unexpected(std::move(mismatch));
  }
  source.set_verified();
  auto published = publish(source, file);
  file->release();
  if (published) {
    if (hashes.list != nullptr) hashes.list->publish(expected);
    return std::move(*published);
  }
  if (published.error().code == Code::unsupported) return BlobHandle{};
  if (BlobHandle others = source.store().backend().find(*source.name(), source.size()))
    return others;  // another process was faster
  return not_stored(published.error());
}

}  // namespace

Result<BlobHandle> verify(const RemoteSource& source) {
  for (int dropped = 0; dropped < kMaxTries;) {
    if (const auto held = hold_space(source); !held) {
      source.remove_if_empty();
      return not_stored(held.error());
    }
    const uint64_t generation = source.generation();
    auto hashes = hash(source);
    const auto [file, blob] = TRY(source.open());
    if (blob != nullptr) return BlobHandle{blob, *source.name()->digest};
    if (!hashes) {
      source.ranges().release_space(file);
      source.remove_if_empty();
      return tl::unexpected(hashes.error());
    }
    // Another process found that they do not match, and dropped them: not all of the hashed bytes are in this file.
    if (generation != source.generation()) {
      ++dropped;
      continue;
    }
    if (auto ended = TRY(publish_or_drop(source, file, std::move(*hashes)))) return std::move(*ended);
    dropped = 0;
  }
  return not_stored({Code::resource, "other processes keep dropping its blocks"});
}

Result<void> verify_if_complete(const RemoteSource& source) {
  const auto [file, blob] = TRY(source.open());  // fails if the comparison has
  if (blob != nullptr || !TRY(file->is_complete())) return {};
  TRY(verify(source));
  return {};
}

}  // namespace weightfs::blobs
