#include "cache/blobs/local_copies.h"

#include <fmt/core.h>
#include <sys/stat.h>

#include "base/cancel.h"
#include "base/files/leaf.h"
#include "base/files/private_file.h"
#include "base/text.h"

namespace weightfs::blobs {
namespace {

// Digests of smaller files are not saved, since hashing them is fast.
constexpr uint64_t kMinSavedSize = 4 << 20;

Result<Digest> digest_of(StoreCore& store, const Source& bytes) {
  const CancelScope scope([&] { return store.stop_token().stop_requested(); });
  return sha256(bytes);
}

// The key for the saved digest of this file; empty if it is not saved.
std::string digest_key(const Source& bytes) {
  const std::string identity = bytes.size() < kMinSavedSize ? "" : bytes.identity();
  return identity.empty() ? "" : "digest of " + identity;
}

std::optional<Digest> saved_digest_of(StoreCore& store, const Source& bytes) {
  const std::string key = digest_key(bytes);
  return key.empty() ? std::nullopt : store.backend().find_digest(store::DigestOf::external, key);
}

// The saved digest of this file, or a newly computed one.
Result<Digest> digest_of_file(StoreCore& store, const Source& bytes) {
  if (const auto known = saved_digest_of(store, bytes)) return *known;
  const Digest digest = TRY(digest_of(store, bytes));
  if (const std::string key = digest_key(bytes); !key.empty())
    std::ignore = store.backend().save_digest(store::DigestOf::external, key, digest);
  return digest;
}

// Whether only this user and root may write to the file. Its parent directories do not matter: a file that replaces it
// is a different one, which is detected (base/source.h) and verified.
bool is_private(const Source& bytes) {
  const auto extent = extent_of(bytes);
  struct stat file {};
  return !extent || (::fstat(extent->fd, &file) == 0 && is_private_file(file));
}

// Verifies while copying. Concurrent requests for the same copy share it.
Result<LocalCopy> copy_into_cache(StoreCore& store, const BlobRef& ref, LocalCopy copy) {
  store::BlobName name = StoreCore::name_of(ref.digest, copy.bytes->size());
  if (store.backend().find(name, copy.bytes->size())) {
    copy.is_cached = true;
    return copy;
  }
  name.text = "copy-" + name.text;
  BlobProducer producer{.name = copy.name, .size = copy.bytes->size(), .digest = ref.digest};
  producer.start = [bytes = copy.bytes]() -> Result<StreamPtr> { return stream_of(bytes); };
  const auto [phase, error, handle] = store.decodings().produce(producer, name);
  if (phase == InFlightBlob::Phase::failed) return tl::unexpected(error);
  if (phase == InFlightBlob::Phase::uncacheable)
    return failure(Code::io, fmt::format("{}: writable by other users, and it cannot be copied into the cache: {}",
                                         copy.name, error.message));
  copy.is_cached = true;
  return copy;
}

// Returns the copy after verification.
Result<LocalCopy> verify(StoreCore& store, const BlobRef& ref, LocalCopy copy) {
  if (!is_private(*copy.bytes)) return copy_into_cache(store, ref, std::move(copy));
  const auto digest = digest_of_file(store, *copy.bytes);
  if (!digest) return failure(digest.error().code, fmt::format("{}: {}", copy.name, digest.error().message));
  if (*digest == ref.digest) return copy;
  return failure(Code::mismatch,
                 fmt::format("{}: digest mismatch: found {}, expected {}", copy.name, digest->hex(), ref.digest.hex()));
}

}  // namespace

LocalCopies find_local_copies(StoreCore& store, const BlobRef& ref) {
  LocalCopies copies;
  if (auto local = open_local_copy(ref)) {
    copies.found.push_back({ref.name, "beside the container", std::move(*local)});
  } else if (local.error().code != Code::not_found) {
    store.log_once(local.error().message);
    copies.mismatch = local.error();
  }
  std::vector<std::string> mismatches;
  for (Candidate& candidate : store.external_stores().find(ref.digest, ref.size, mismatches))
    copies.found.push_back({candidate.path, candidate.path, std::move(candidate.bytes)});
  for (const std::string& line : mismatches) store.log_once(line);
  return copies;
}

Result<LocalCopy> verified_copy(StoreCore& store, const BlobRef& ref) {
  LocalCopies copies = find_local_copies(store, ref);
  Error last = copies.mismatch.value_or(Error{Code::not_found, fmt::format("{}: not found locally", ref.name)});
  for (LocalCopy& copy : copies.found) {
    auto result = verify(store, ref, std::move(copy));
    if (result) return result;
    TRY_VOID(store.check_open());
    if (is_cancelled()) return tl::unexpected(result.error());
    last = result.error();
    store.log_once(last.message);
  }
  return tl::unexpected(std::move(last));
}

bool is_known_to_match(StoreCore& store, const LocalCopy& copy, const Digest& digest) {
  return is_private(*copy.bytes) &&
         (copy.bytes->size() < kMinSavedSize || saved_digest_of(store, *copy.bytes) == digest);
}

bool may_match(StoreCore& store, const LocalCopy& copy, const Digest& digest) {
  if (copy.bytes->size() >= kMinSavedSize) return saved_digest_of(store, *copy.bytes).value_or(digest) == digest;
  const auto computed = digest_of(store, *copy.bytes);
  return computed && *computed == digest;
}

store::BlobHandle cached_blob(StoreCore& store, const BlobRef& ref) {
  return store.backend().find(StoreCore::name_of(ref.digest, ref.size), ref.size);
}

bool is_local(StoreCore& store, const BlobRef& ref) {
  return cached_blob(store, ref) || !find_local_copies(store, ref).found.empty();
}

}  // namespace weightfs::blobs
