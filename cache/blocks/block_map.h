// The map of the bytes of a cached file: a checksum for each block. It is a file beside the data.
//
//   4096 bytes: a magic, the size of the data and the text that identifies them, a line each; then zeros
//   8 bytes for each block: its CRC-32C and the complement; anything else means that the block is absent
//
// Checksums detect accidents, not attacks: a user who may write to the cache can change both files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/digest.h"
#include "base/result.h"

namespace weightfs::store {

inline constexpr uint64_t kBlock = 16 * 1024;  ///< bytes per block; the last one may be shorter

/// The number of blocks that the first `bytes` of a file are in.
constexpr uint64_t blocks_in(uint64_t bytes) { return bytes / kBlock + (bytes % kBlock != 0); }

/// Blobs up to this size have no map and no block list: hashing them is fast enough.
inline constexpr uint64_t kWorthAMap = 1 << 20;

/// What is known of a block.
struct MapEntry {
  uint32_t crc = 0;
  uint32_t complement = 0;

  bool is_present() const { return complement == ~crc; }
  friend bool operator==(const MapEntry&, const MapEntry&) = default;
};

/// The entry of a block with these bytes.
MapEntry entry_of(std::span<const std::byte> block);

/// What a map describes.
enum class MapOf {
  blocks,  ///< a file of which blocks may be absent
  blob     ///< a complete blob, whose digest was compared
};

/// The first page of a map.
struct MapHeader {
  MapOf of;
  uint64_t size;         ///< of the data
  std::string identity;  ///< of the data: at most kMaxIdentity bytes

  friend bool operator==(const MapHeader&, const MapHeader&) = default;
};

inline constexpr size_t kMaxIdentity = 3000;

/// The identity of the bytes of a blob, whichever server they come from.
std::string blob_identity(const Digest& digest, uint64_t size);
/// The digest in such an identity; nothing for another one.
std::optional<Digest> digest_of_identity(std::string_view identity);

/// The identity of a blob that a process writes from its first byte on; `name` is BlobName::text.
std::string new_blob_identity(const std::string& name);
bool is_new_blob(std::string_view identity);

/// Where the entry of a block is in the map.
constexpr uint64_t entry_offset(uint64_t block) { return 4096 + block * sizeof(MapEntry); }
/// The size of the map of `size` bytes.
constexpr uint64_t map_size(uint64_t size) { return entry_offset(blocks_in(size)); }

/// Nothing if the file open as `fd` has no valid header.
std::optional<MapHeader> read_map_header(int fd);
/// False with errno set on failure.
bool write_map_header(int fd, const MapHeader& header);

/// Reads the entries of blocks [first, first + count). Fails with io.
Result<std::vector<MapEntry>> read_entries(int fd, uint64_t first, uint64_t count);
/// False with errno set on failure.
bool write_entries(int fd, uint64_t first, std::span<const MapEntry> entries);

/// The most entries that should be read at a time: those of 64 MiB.
inline constexpr uint64_t kEntriesPerRead = 4096;

/// How many of the bytes [from, to) are in present blocks. Fails with io.
Result<uint64_t> present_in(int map, uint64_t from, uint64_t to);

/// Locks a range of bytes with a lock of the open file description (fcntl(2), F_OFD_SETLK), which ends with the
/// process, and also excludes other objects of this process. `type` is F_RDLCK, F_WRLCK or F_UNLCK. Does not wait;
/// errno is set if it fails.
bool lock_range(int fd, short type, uint64_t offset, uint64_t size);

/// The lock of the header of a map, its second byte, which is held while the files are created, evicted or published.
/// Waits while another process has it: for a moment, but for two seconds if that process was stopped.
class HeaderLock {
 public:
  explicit HeaderLock(int map);
  HeaderLock(const HeaderLock&) = delete;
  HeaderLock& operator=(const HeaderLock&) = delete;
  ~HeaderLock();  ///< keeps errno

  /// Whether another process kept it, or the calling thread was cancelled. Else it is held, or there are no locks here.
  bool is_refused() const { return is_refused_; }

 private:
  const int map_;
  bool is_refused_ = false;
};

}  // namespace weightfs::store
