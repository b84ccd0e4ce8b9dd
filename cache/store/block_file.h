// A remote file of which some blocks are on disk: a sparse file with the blocks at their offsets, then a map of them.
// Processes share it.
//
//   the blocks; those that are absent are holes, or allocated for a transfer
//   the map, from the next multiple of 4096 on: per block its CRC-32C and the complement; anything else means absent
//   4096 bytes: magic, size, and the text that identifies the remote file
//
// No order of writes has to be kept: a block whose bytes and checksum do not match is absent. Each process compares a
// block before its first use. A process that evicts the file unlinks it first, and truncates it then, so a reader that
// finds the file linked after a read has read no byte of the truncated file. A process that holds the file prevents its
// eviction (a lock of the first byte), and has the space for all blocks.
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
#include "cache/store/block_set.h"

namespace weightfs::store {

/// The identity of the blocks of a blob, whichever server they come from.
std::string blob_identity(const Digest& digest, uint64_t size);
/// The digest in such an identity; nothing for another one.
std::optional<Digest> digest_of_identity(std::string_view identity);

/// Thread-safe.
class BlockFile {
 public:
  static constexpr uint64_t kBlock = 16 * 1024;  ///< bytes per block; the last one may be shorter
  static constexpr uint64_t kMaxSize = uint64_t{4} << 40;
  /// The number of blocks that the first `bytes` of a file are in.
  static constexpr uint64_t blocks_in(uint64_t bytes) { return (bytes + kBlock - 1) / kBlock; }

  /// Reserves disk space; fails with resource.
  struct Space {
    std::function<Result<void>(int fd, uint64_t from, uint64_t to)> reserve;  ///< for absent bytes; may evict this file
    std::function<Result<void>(int fd, uint64_t bytes)> allocate_first;       ///< for the first `bytes` of the file
    std::function<void(uint64_t written)> release_unused = {};  ///< ends reservations of more bytes; may be null
  };

  /// The file open as `file`, readable and writable, of a remote file of `size` bytes. An empty file becomes one
  /// without blocks. `identity` is empty for a temporary file, which has no name. Fails with not_found if it is another
  /// file, perhaps just published; with resource if `size` is above kMaxSize, with io if the file cannot be written.
  static Result<std::shared_ptr<BlockFile>> open(SharedDescriptor file, uint64_t size, std::string_view identity,
                                                 Space space);

  /// The file open as `file`, readable and writable, to examine it. Fails with not_found if it has no valid header.
  static Result<std::shared_ptr<BlockFile>> of_file(SharedDescriptor file);

  /// Makes it the blob `to_name` in `to`: its blocks without the map. False with errno set on failure; ENOENT if it is
  /// not `name` in `folder` any more.
  bool publish_as(const Descriptor& folder, const std::string& name, const Descriptor& to, const std::string& to_name);

  /// Whether a file is removed although a process holds it.
  enum class Held { keep, remove };
  /// Removes the file `name` in `folder`, open as `fd`. False with errno set on failure: EBUSY if a process holds it,
  /// ENOENT if it has another name, as a published one. `remove` waits while it is just being published.
  static bool evict(const Descriptor& folder, const std::string& name, int fd, Held held);
  /// Whether a process holds the file open as `fd`.
  static bool is_held(int fd);
  /// The number of bytes in present blocks of the file open as `fd`, by its map.
  static uint64_t present_bytes(int fd);

  /// The disk space that is allocated for absent blocks of that file, in whole blocks.
  static uint64_t reserved_bytes(int fd);

  /// The identifying text of such a file, for listings; nothing if it is not one.
  static std::optional<std::string> identity_of(int fd);

  /// The identity that was passed to open().
  const std::string& identity() const { return identity_; }

  uint64_t size() const { return size_; }
  uint64_t block_count() const { return blocks_in(size_); }
  /// The blocks that hold the bytes [from, to).
  Blocks blocks_of(uint64_t from, uint64_t to) const;

  const SharedDescriptor& descriptor() const { return file_; }

  /// Prevents eviction until release(), and reserves the space for all blocks. Fails with resource if there is not
  /// enough, and with not_found if the file was evicted.
  Result<void> hold();
  void release();

  /// Frees the disk space of absent blocks, unless a process holds the file. Only the caller may have claims of them.
  void free_absent_blocks(Blocks within);

  /// Whether the file was evicted, or published as a blob: its blocks, or its map, are gone.
  bool is_evicted() const;
  /// Whether it was, or is just being, published as a blob.
  bool is_published() const;

  /// How many of the bytes [from, to) are in present blocks, by the map. Fails with io.
  Result<uint64_t> present_bytes(uint64_t from, uint64_t to) const;

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

  /// Whether the map has all blocks; their bytes are not compared.
  Result<bool> is_complete();

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
  /// Compares every present block, also those that were compared before, and drops those that do not match: they are
  /// absent from then on, for all processes. A block that another process is writing is skipped. Passes the number of
  /// bytes of each block to `report`.
  Compared drop_damaged(const std::function<void(uint64_t bytes)>& report);

  /// Writes everything to the disk (fsync).
  Result<void> flush();

 private:
  BlockFile(SharedDescriptor file, uint64_t size, std::string identity, Space space)
      : file_(std::move(file)),
        size_(size),
        identity_(std::move(identity)),
        space_(std::move(space)),
        checked_(block_count()) {}

  using Entry = std::array<uint32_t, 2>;  // of a block in the map

  uint64_t entry_offset(uint64_t block) const;
  bool set_lock(short type, Blocks blocks) const;
  Result<void> write_all(uint64_t first, std::span<const std::byte> bytes);
  Result<std::vector<bool>> presence(Blocks of, uint64_t compared_end);
  Result<uint64_t> compare(uint64_t first, std::span<const Entry> entries, uint64_t offset,
                           std::span<const std::byte> bytes);
  Result<bool> check(uint64_t block, uint32_t crc);
  Result<bool> matches(uint64_t block, uint32_t crc) const;
  Result<bool> drop_if_damaged(uint64_t block);

  SharedDescriptor file_;
  const uint64_t size_;
  const std::string identity_;
  const Space space_;
  std::atomic<bool> is_held_ = false;
  std::atomic<uint64_t> complete_until_ = 0;  // the map has all blocks before this one
  BlockSet checked_;                          // blocks whose checksum was compared
};

using BlockFilePtr = std::shared_ptr<BlockFile>;

}  // namespace weightfs::store
