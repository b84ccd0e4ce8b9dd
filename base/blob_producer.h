// A blob that is produced on demand: the decoder of a member, and what its container declares about the result.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/digest.h"
#include "base/result.h"

namespace weightfs {

/// A stream of bytes that is read once, in order, by one thread at a time.
class Stream {
 public:
  virtual ~Stream() = default;
  Stream() = default;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  /// Fills the beginning of `out`, which must not be empty, and returns the number of bytes. Returns 0 only at the end,
  /// after the container's own checksum and size were verified: until then the last byte is not verified. Must not be
  /// called again after 0 or a failure.
  virtual Result<size_t> next(std::span<std::byte> out) = 0;
};

using StreamPtr = std::unique_ptr<Stream>;

/// How to produce a blob's bytes, and what is known about them in advance.
struct BlobProducer {
  std::string name;                   ///< for messages: the path of the member
  std::optional<uint64_t> size = {};  ///< in bytes; the stream gives exactly that many or fails
  std::optional<Digest> digest = {};  ///< if the container declares it
  /// Two producers have the same key only if they produce the same bytes: Source::identity of the input, and the
  /// method. Other processes find a cached blob by its key. Empty: unknown, so no other reader can find it.
  std::string key = {};
  std::function<Result<StreamPtr>()> start =
      {};  ///< starts at the first byte; may be called repeatedly, from any thread
  /// The stream reads only blobs of a lower depth, and so does a thread that holds a lock which the stream takes. That
  /// of a container's members is the number of containers that they are in.
  int depth = 0;
  bool costly_start = false;  ///< the first bytes take about as long as all, so that it is better to keep all
};

/// The depth of a blob that is computed from files in a mount, whatever containers they are in.
inline constexpr int kMountDepth = 1000;

}  // namespace weightfs
