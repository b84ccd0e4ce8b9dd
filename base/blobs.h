// Bytes that are not simply there. What has to be made (a member inflated, a tar unpacked) formats describe with a
// Recipe; what lies elsewhere under its digest (a linked file, a layer of a manifest) with a Wanted. Whoever implements
// Blobs says where they are kept and how they are fetched.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/digest.h"
#include "base/source.h"

namespace weightfs {

/// Bytes that come one after the other, once. One reader, one thread at a time.
class Stream {
 public:
  virtual ~Stream() = default;
  Stream() = default;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  /// Fills the beginning of `out`, which is not empty, and returns how many bytes came: 0 only at the end, and only
  /// when everything that came is right by the container's own checksum and size. So the last byte is not to be
  /// believed before a call that returned 0. After that, and after a failure, it is not called again.
  virtual Result<size_t> next(std::span<std::byte> out) = 0;
};

using StreamPtr = std::unique_ptr<Stream>;

/// How to make bytes, and what is known of them before.
struct Recipe {
  std::string name;              ///< for messages: the member's path
  std::optional<uint64_t> size;  ///< in bytes; the stream gives exactly so many or fails
  std::optional<Digest> digest;  ///< when the container names it
  /// Equal for two recipes only if they make the same bytes (Source::identity of what they are made from, and how):
  /// what one process made is found again by it. Empty: not known, nobody else can find it.
  std::string key;
  std::function<Result<StreamPtr>()> start;  ///< from the first byte, as often as asked, from any thread
};

/// Bytes that are known by their digest, and where they may be found.
struct Wanted {
  std::string name;  ///< for messages: the file's path, the layer's name
  Digest digest;
  std::optional<uint64_t> size;        ///< as the container says; bytes of another size are not these
  std::vector<std::string> urls = {};  ///< named by the container, so not trusted; tried in this order
  /// A file that should hold them, beside the container: read in place once it has proved right. Fails with not_found.
  std::function<Result<SourcePtr>()> here = {};
};

/// While it lives, the calling thread asks for sizes only: Blobs::named() downloads at most kMaxDownloadForSize to
/// learn one that no server reports.
class SizeQuery {
 public:
  SizeQuery();
  ~SizeQuery();
  SizeQuery(const SizeQuery&) = delete;
  SizeQuery& operator=(const SizeQuery&) = delete;

  static bool is_active();  ///< in the calling thread

 private:
  bool outer_;
};

inline constexpr uint64_t kMaxDownloadForSize = 64 << 20;  ///< bytes

/// Bytes that were found, or will be fetched when they are read.
struct Found {
  SourcePtr proved;    ///< serves nothing before the digest has proved right; fails with mismatch when it has not
  SourcePtr arriving;  ///< the same bytes as they come: for whoever wants to know what they are, never to be served
};

/// Makes bytes by recipes, and finds them by digests. Callable from any thread.
class Blobs {
 public:
  virtual ~Blobs() = default;
  Blobs() = default;
  Blobs(const Blobs&) = delete;
  Blobs& operator=(const Blobs&) = delete;

  /// The bytes of a recipe that has a size; nothing is made before they are read. A read fails as the stream does, and
  /// with mismatch when the bytes are not those of the digest. Bytes may be served while later ones are being made, but
  /// the last one only once all of them have proved right.
  virtual SourcePtr blob(Recipe recipe) = 0;

  /// The bytes of a recipe, made and proved before it returns: for those whose size only making tells.
  virtual Result<SourcePtr> made(Recipe recipe) = 0;

  /// The bytes of a digest. Reads nothing but, when only asking tells the size, that (which may be to fetch them all).
  /// Fails with unreachable when they would have to be fetched and cannot be. As it is here it knows only `here`.
  virtual Result<Found> named(const Wanted& wanted);

  /// Whether named() gives bytes that nobody has to fetch.
  virtual bool is_at_hand(const Wanted& wanted);

  /// Ends what is being made, soon; whoever waits for bytes that are not there yet gets unavailable, now and from then
  /// on. What is kept can still be read.
  virtual void stop() {}
};

/// Blobs up to this many bytes are made for each read and not kept: that is quicker than a file of their own, whose
/// bytes the kernel keeps no better.
inline constexpr uint64_t kSmallBlob = 64 * 1024;

/// What `wanted.here` gives. Fails with not_found when there is nothing, with mismatch when it has another size.
Result<SourcePtr> here_of(const Wanted& wanted);

using BlobsPtr = std::shared_ptr<Blobs>;

/// Keeps nothing: a read goes on where the last one stopped, and starts anew when it lies before that. What there is
/// when nothing can be written, and what reads a member once.
BlobsPtr unstored_blobs();

}  // namespace weightfs
