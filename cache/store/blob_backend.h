// Where blobs are kept once made, and where their bytes go meanwhile. A shelf is a directory that processes share
// (cache/store/disk_backend.h) or a temporary file (cache/store/temp_file_backend.h); how a blob is made
// (cache/blobs/in_flight_blob.h) is the same for both. Every failure here means "cannot be kept", and its message says
// why in words that fit every blob.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/digest.h"
#include "base/result.h"
#include "cache/store/block_sums.h"
#include "cache/store/file_range.h"

namespace weightfs {

/// What a blob is known by.
struct Name {
  std::string text;              ///< equal for all who may share one making; letters, digits and dashes
  std::string key;               ///< the recipe's
  std::optional<Digest> digest;  ///< when it is known
  /// What of it was made when its maker ended goes on being made by the next. It has a digest then: what is wrong in
  /// what was left is found.
  bool resumable = false;
};

/// Whether what is kept may be removed to make room.
enum class Others { make_way, stay };

/// A blob while it is made: bytes are written to it one after the other. One that goes before it is published or left
/// leaves nothing behind. Written to by one thread; reading its range() is for any.
class Draft {
 public:
  virtual ~Draft() = default;
  Draft() = default;
  Draft(const Draft&) = delete;
  Draft& operator=(const Draft&) = delete;

  /// Makes room for `size` bytes in all; call it before writing beyond what it was called with.
  virtual Result<void> reserve(uint64_t size, Others others) = 0;
  /// Puts `bytes` at `offset`, where those before ended.
  virtual Result<void> write(uint64_t offset, std::span<const std::byte> bytes) = 0;
  /// How many bytes an earlier maker left in it, and the note that he made. Nothing is known of them.
  virtual uint64_t left() const { return 0; }
  virtual std::string note() const { return {}; }
  /// Throws away what was left, before anything is written. Whoever reads what was left still can. Its range() is
  /// another from then on.
  virtual Result<void> restart() = 0;
  /// Notes a line for whoever goes on with it.
  virtual void take_note(const std::string& line) = 0;
  /// Keeps its first `written` bytes for the next maker, if it is resumable. Nothing else is called after that.
  virtual void leave(uint64_t written) = 0;
  /// What is to be read of it while it is made; the size that it tells means nothing.
  virtual RangePtr range() const = 0;
  /// Makes a finished blob of it, which is `size` bytes long and has these checksums. Nothing else is called after
  /// that.
  virtual Result<Kept> publish(const Digest& digest, uint64_t size, BlockSums sums) = 0;
};

/// What came of wanting to make a blob; one of the three.
struct Begun {
  Kept kept;                     ///< it is there already
  std::unique_ptr<Draft> draft;  ///< the caller makes it
  RangePtr others;               ///< somebody else is making it: their range, so far
  uint64_t others_size = 0;      ///< how many bytes of it there are
};

/// Keeps blobs. Callable from any thread.
class Shelf {
 public:
  virtual ~Shelf() = default;
  Shelf() = default;
  Shelf(const Shelf&) = delete;
  Shelf& operator=(const Shelf&) = delete;

  /// The blob if it is at hand; cheap.
  virtual Kept opened(const Name& name) = 0;
  /// The blob if it is kept. One that has another size than `size` is not.
  virtual Kept find(const Name& name, std::optional<uint64_t> size) = 0;
  /// Takes the making of a blob, unless it is there or is being made. The draft waits for nothing any more once `stop`
  /// is true, which outlives it.
  virtual Result<Begun> begin(const Name& name, std::optional<uint64_t> size, const std::atomic<bool>& stop) = 0;

  /// Which digest was last noted under a key, here or by an earlier process. Such a note is of a blob that is kept, and
  /// may go with it, or of a file elsewhere.
  enum class Of { kept, elsewhere };
  virtual std::optional<Digest> noted(Of of, const std::string& key) = 0;
  virtual Result<void> note(Of of, const std::string& key, const Digest& digest) = 0;

  /// Ends what reads of kept blobs compute, soon; they fail with unavailable.
  virtual void stop() {}
};

using ShelfPtr = std::shared_ptr<Shelf>;

}  // namespace weightfs
