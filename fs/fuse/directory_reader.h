// The entries of directories in the form of READDIRPLUS. The kernel requests a large directory part by part; the next
// part is made while it processes the last one.
//
// The kernel makes an inode of about a kilobyte for each entry with attributes, which costs 2 to 3 µs; a LOOKUP costs
// 20. Readers such as du(1), and all that use fts(3), read a whole directory before they use the first name. So the
// entries of a directory have attributes, unless it is so large that the inodes would fill the memory: then they have
// them if files of it are being looked up. Subdirectories always have them, as readers enter them.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>

#include "base/result.h"
#include "fs/tree/forest.h"

// libfuse's type.
struct fuse_entry_param;

namespace weightfs::fuse {

/// A directory with more entries is large.
inline constexpr uint32_t kLargeDirectory = 131'072;

/// A part of a directory that the kernel requests. Offsets: 1 after `.`, 2 after `..`, 2 + k after the k-th child; in a
/// directory that can change, 2 + its inode number after a child.
struct DirectoryPart {
  Ino directory;
  off_t offset;
  size_t size;  ///< the maximum, in bytes
  bool operator==(const DirectoryPart&) const = default;
};

/// Entries for a reply.
class Entries {
 public:
  explicit Entries(size_t size) : size_(size), bytes_(std::make_unique_for_overwrite<char[]>(size)) {}

  std::span<const char> bytes() const { return {bytes_.get(), used_}; }
  /// The offset after the last entry.
  off_t end() const { return end_; }
  /// Whether an entry did not fit.
  bool is_full() const { return is_full_; }

  /// False if it does not fit. The kernel makes no inode for an entry with the inode number 0.
  bool add(const char* name, const fuse_entry_param& entry, off_t next);

 private:
  size_t size_;
  std::unique_ptr<char[]> bytes_;
  size_t used_ = 0;
  off_t end_ = 0;
  bool is_full_ = false;
};

/// Callable from any thread.
class DirectoryReader {
 public:
  using EntryOf = std::function<fuse_entry_param(Ino ino, const Attributes& attributes)>;

  /// For other limits in tests: a directory with more than `large` entries is large, and a lookup is remembered for the
  /// time `recent`.
  DirectoryReader(Forest& forest, EntryOf entry_of, uint32_t large = kLargeDirectory,
                  std::chrono::milliseconds recent = std::chrono::seconds(1))
      : forest_(forest), entry_of_(std::move(entry_of)), large_(large), recent_(recent) {}

  /// The entries of a part. Fails as Forest::list().
  Result<Entries> read(const DirectoryPart& part);

  /// A file of the directory is looked up. True if a reader has listed it without attributes and then looks up many
  /// files: the kernel should forget its listing, as the next one has attributes.
  bool looked_up(Ino directory);

  /// After the reply with the entries of `part`: makes the part that the kernel will probably request next.
  void read_next(const DirectoryPart& part, const Entries& entries) noexcept;

 private:
  using Clock = std::chrono::steady_clock;

  // A part that was made before it was requested.
  struct Ahead {
    DirectoryPart part;
    bool has_attributes;
    Entries entries;
  };

  bool has_attributes(const Forest::Listing& all, Ino directory) const;
  Result<Entries> make(const Forest::Listing& all, const DirectoryPart& part, bool has_attributes);
  fuse_entry_param entry_of(Ino ino, NodeKind kind, bool has_attributes) const;

  Forest& forest_;
  const EntryOf entry_of_;
  const uint32_t large_;
  const std::chrono::milliseconds recent_;
  std::atomic<Ino> large_directory_ = 0;  // the last one that was listed without attributes
  std::atomic<uint32_t> parts_ = 0;       // of it that were listed so
  std::atomic<uint32_t> lookups_ = 0;     // in it
  std::atomic<Clock::time_point> last_lookup_ = Clock::time_point();
  std::atomic<bool> is_examined_ = false;  // its files are looked up one after the other
  std::mutex mutex_;                       // guards the rest
  std::optional<Ahead> next_;
};

}  // namespace weightfs::fuse
