// A file of which some blocks are in the cache: the data, a sparse file with the blocks at their offsets, and beside it
// NAME.map, the map of its blocks (cache/blocks/block_map.h). Processes share both.
//
// No order of writes has to be kept: a block whose bytes and checksum do not match is absent. Each process compares a
// block before its first use. A process that evicts the files truncates the map first, then the data: a reader that
// finds the map whole after a read has read no byte of truncated data. Publication as a blob renames both, so files
// that are open stay valid; the map grows by an entry, by which other processes know it. All locks are of ranges of the
// map: the first byte while a process holds the files, which prevents eviction and reserves the space for all blocks;
// the second byte while they are created, evicted or published; the entries of blocks while these are written.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/digest.h"
#include "base/os/descriptor.h"
#include "base/result.h"
#include "cache/blocks/block_map.h"
#include "cache/blocks/block_set.h"

namespace weightfs::store {

/// The data and the map of cached bytes, open; null if there is no such file.
struct CachedFiles {
  SharedDescriptor data;
  SharedDescriptor map;
};

/// The name of the map beside the data `name`.
inline constexpr std::string_view kMapSuffix = ".map";
inline std::string map_name(const std::string& name) { return name + std::string(kMapSuffix); }

/// Opens both, O_RDONLY or O_RDWR; what is no regular file opens without waiting.
CachedFiles open_files(const Descriptor& folder, const std::string& name, int mode);

/// Whether cached blobs may be evicted to free space.
enum class Eviction { allowed, forbidden };

/// Thread-safe.
class BlockFile {
 public:
  static constexpr uint64_t kMaxSize = uint64_t{4} << 40;

  /// Reserves disk space of the data, open as `fd`; fails with resource.
  struct Space {
    std::function<Result<void>(int fd, uint64_t from, uint64_t to)> reserve;  ///< for absent bytes; may evict this file
    std::function<Result<void>(int fd, uint64_t bytes, Eviction)> allocate_first;  ///< for the first `bytes`
    std::function<void(uint64_t written)> release_unused = {};  ///< ends reservations of more bytes; may be null
    std::function<bool(uint64_t bytes)> free_up = {};           ///< frees a full disk by so much; may be null
  };

  /// The files `name` and `name`.map in `folder`, of `size` bytes with this identity; they are created if the map is
  /// missing or empty. If the size is not known, it is kMaxSize until set_end(). Fails with corrupt if they are of
  /// other bytes, with not_found if they were just published or evicted, with resource if `size` is above kMaxSize
  /// or another process keeps the lock of the header, with io if they cannot be written.
  static Result<std::shared_ptr<BlockFile>> open(const Descriptor& folder, const std::string& name,
                                                 std::optional<uint64_t> size, std::string_view identity, Space space);

  /// Empty temporary files, which have no identity.
  static Result<std::shared_ptr<BlockFile>> create(CachedFiles files, std::optional<uint64_t> size, Space space);

  /// Files to examine. Fails with not_found without data or a valid header.
  static Result<std::shared_ptr<BlockFile>> of_files(CachedFiles files);

  /// Makes it the blob of this digest: the data become `blob` in `blobs`, the map becomes `sums` in `folder`. A small
  /// blob has no map. False with errno set on failure: ENOENT if the files are not `name` in `folder` any more,
  /// EBUSY if another process keeps the lock of the header.
  bool publish_as(const Digest& digest, const Descriptor& folder, const std::string& name, const Descriptor& blobs,
                  const std::string& blob, const std::string& sums);

  /// Which files are removed: those that no process holds, also held ones, or only files that a killed process or an
  /// earlier version has left.
  enum class Evict { unheld, all, left };
  /// Removes the files `name` in `folder` and returns the freed disk space. Nothing with errno set on failure: EBUSY if
  /// they are kept, ENOENT if there are none, or not any more. `all` waits while they are just being published, for two
  /// seconds at most.
  static std::optional<uint64_t> evict(const Descriptor& folder, const std::string& name, Evict which);
  /// Whether a process holds the files.
  static bool is_held(const CachedFiles& files);
  /// Whether a process holds the files, or has a claim of blocks.
  static bool is_in_use(const CachedFiles& files);
  /// The number of bytes in present blocks, by the map.
  static uint64_t present_bytes(const CachedFiles& files);
  /// The disk space that is allocated for absent blocks, in whole blocks.
  static uint64_t reserved_bytes(const CachedFiles& files);

  /// The identity that was passed to open().
  const std::string& identity() const { return identity_; }

  uint64_t size() const { return size_; }
  uint64_t block_count() const { return blocks_in(size_); }
  /// The blocks that hold the bytes [from, to).
  Blocks blocks_of(uint64_t from, uint64_t to) const;

  const CachedFiles& files() const { return files_; }

  /// Prevents eviction until release(), and reserves the space for all blocks. Fails with resource if there is not
  /// enough, and with not_found if the file was evicted.
  Result<void> hold();
  /// As hold(), with space for the first `bytes` only; to be called again for more.
  Result<void> hold_first(uint64_t bytes, Eviction eviction);
  void release();

  /// Frees the disk space of absent blocks, unless a process holds the file. Only the caller may have claims of them.
  void free_absent_blocks(Blocks within);

  /// Whether the files were neither evicted nor published as a blob. Nothing is written to others; published ones can
  /// still be read.
  bool is_current() const;

  /// How many of the bytes [from, to) are in present blocks, by the map. Fails with io.
  Result<uint64_t> present_bytes(uint64_t from, uint64_t to) const;

  /// Whether a block is present. For a file of unknown size it is cheap before the first one.
  bool has_blocks() const;

  /// Reads from `offset` up to the first absent block; returns the number of bytes. Fails with io, and with not_found
  /// if the file was evicted.
  Result<size_t> read(uint64_t offset, std::span<std::byte> out);

  /// The first run of absent blocks in `within`; nothing if all are present. Reads the map once. From `compared_end`
  /// on, blocks are not compared with their checksums: a block that the map has may turn out to be absent when it is
  /// read.
  Result<std::optional<Blocks>> first_absent(Blocks within, uint64_t compared_end = UINT64_MAX);

  /// Writes those of these whole blocks that are absent; the last block of the file may be shorter. A present block may
  /// have been read or hashed, so it is never replaced. Space was reserved, and the blocks were claimed before. Fails
  /// with not_found if the file was evicted.
  Result<void> write(uint64_t first, std::span<const std::byte> bytes);

  /// The size, which was not known, and the bytes of the last block, which is claimed. Frees the disk space beyond. No
  /// other thread may use the file meanwhile, and no other process may read it before it is published.
  Result<void> set_end(uint64_t size, std::span<const std::byte> last);

  /// Reserves disk space for these blocks.
  Result<void> reserve(Blocks blocks);
  /// Ends reservations of absent blocks, except of a held file. Nothing may be written meanwhile.
  void release_unused_space();
  /// Drops all blocks of a file without identity, as eviction does.
  void discard();

  /// The right to write blocks: no other process or thread has it at the same time. Ends with the object, and with the
  /// process.
  using Claim = std::shared_ptr<const void>;
  /// Null if a process has a claim to one of the blocks. Claims of one object must not overlap.
  static Claim claim(const std::shared_ptr<BlockFile>& file, Blocks blocks);

  /// The first block that the map lacks; their bytes are not compared. Cheap if asked repeatedly.
  Result<uint64_t> complete_until();
  /// Whether the map has all blocks.
  Result<bool> is_complete() { return TRY(complete_until()) == block_count(); }

  /// When any process wrote to it last, in ns.
  uint64_t last_written() const;

  /// What drop_damaged() found.
  struct Compared {
    uint64_t blocks = 0;  ///< that match their checksums
    uint64_t bytes = 0;   ///< of all compared blocks
    uint64_t damaged = 0;
    Result<void> result =
        {};  ///< fails with io if the file cannot be read to its end, with not_found if it was evicted
  };
  /// Compares every present block, also after an earlier comparison, and drops those that do not match: they are
  /// absent from then on, for all processes. A block that another process is writing is skipped. Passes the number of
  /// bytes of each block to `report`.
  Compared drop_damaged(const std::function<void(uint64_t bytes)>& report);

  /// Writes everything to the disk (fsync).
  Result<void> flush();

 private:
  BlockFile(CachedFiles files, uint64_t size, std::string identity, Space space)
      : files_(std::move(files)),
        size_(size),
        identity_(std::move(identity)),
        space_(std::move(space)),
        map_size_(map_size(size)),
        checked_(block_count()) {}

  int data() const { return files_.data->number(); }
  int map() const { return files_.map->number(); }
  bool is_evicted() const;
  bool set_lock(short type, Blocks blocks) const;
  Result<void> write_all(uint64_t first, std::span<const std::byte> bytes);
  Result<std::vector<bool>> presence(Blocks of, uint64_t compared_end);
  Result<uint64_t> compare(uint64_t first, std::span<const MapEntry> entries, uint64_t offset,
                           std::span<const std::byte> bytes);
  Result<bool> check(uint64_t block, const MapEntry& entry);
  Result<bool> matches(uint64_t block, const MapEntry& entry) const;
  Result<bool> drop_if_damaged(uint64_t block);

  const CachedFiles files_;
  uint64_t size_;
  const std::string identity_;
  const Space space_;
  const uint64_t map_size_;  // of the file, until it is published or evicted
  std::atomic<bool> is_held_ = false;
  std::atomic<uint64_t> complete_until_ = 0;  // the map has all blocks before this one
  BlockSet checked_;                          // blocks whose checksum was compared
};

using BlockFilePtr = std::shared_ptr<BlockFile>;

}  // namespace weightfs::store
