// What this process has delivered of a file whose digest is not compared yet, and the hash of its beginning.
//
// The invariant (semantics 21.6): no reader has every byte of the file before the comparison. A block is noted before
// its bytes are returned, so the read that notes the last one finds is_whole(), as all later reads do, and waits. A
// reader reads through one process, so each process has an account of its own, and no lock with others.
//
// A reader, or the kernel, keeps what it got when blocks are evicted. So noted blocks remain noted, and all blocks
// count as noted once verified bytes were evicted: a block that is downloaded again may be the last one of a reader.
// The exception is forget_noted().
//
// A limit: bytes that were read out of order and dropped before they were hashed are hashed as they are sent again.
//
// The hash follows the noted bytes in the order of the file, so that a reader that reads in order waits for nothing. It
// goes on when blocks are evicted, so it is also right for a file that does not fit in the cache.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <span>

#include "base/digest.h"
#include "cache/blocks/block_set.h"

namespace weightfs::blobs {

/// Thread-safe. A generation is a number (RemoteSource::generation()) that changes when blocks were dropped: the bytes
/// of one never change. 0 stands for bytes of several.
class Delivery {
 public:
  /// Reads noted bytes of that generation again; returns how many are still cached.
  using ReadBack = std::function<size_t(uint64_t offset, std::span<std::byte> out)>;
  /// The hash of the first bytes.
  struct Begun {
    Sha256 hash;
    uint64_t size;
  };

  explicit Delivery(uint64_t size);

  /// To be called before these bytes are returned to a reader or a parser. Other bytes are read back only if parallel
  /// reads came out of order.
  void note(uint64_t generation, uint64_t offset, std::span<const std::byte> bytes, const ReadBack& read_back);
  /// Notes all blocks: readers may have any of them, from a verified copy.
  void note_all() { is_all_noted_ = true; }
  /// Whether all blocks were noted.
  bool is_whole() const { return is_all_noted_ || missing_ == 0; }
  /// Whether the hash has reached the end.
  bool is_hashed() const { return hashed_ == size_; }

  /// The digest of all bytes; nothing unless is_hashed().
  std::optional<Digest> digest();
  /// As digest(), but only if all bytes are of this generation.
  std::optional<Digest> digest_of(uint64_t generation);
  /// The hash of the bytes so far, if they are of this generation and at least half of the file. Then another one
  /// begins.
  std::optional<Begun> take(uint64_t generation);
  /// Forgets which blocks were noted, because they cannot be compared as a whole. The hash goes on.
  void forget_noted();
  /// The hash begins again: the bytes are downloaded again. The blocks remain noted.
  void restart_hash();

 private:
  void begin_hash();
  std::optional<Digest> finished();
  uint64_t read_back_end(uint64_t offset, uint64_t end) const;

  const uint64_t size_;
  store::BlockSet noted_;
  std::atomic<uint64_t> missing_;  // blocks that were not noted
  std::atomic<bool> is_all_noted_ = false;
  std::atomic<uint64_t> hashed_ = 0;
  std::mutex mutex_;  // guards the rest, and changes of hashed_
  std::optional<Sha256> hash_;
  std::optional<Digest> digest_;  // once all bytes are hashed
  uint64_t generation_ = 0;       // of the hashed bytes
};

}  // namespace weightfs::blobs
