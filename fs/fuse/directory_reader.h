// The entries of directories in the form of READDIR and READDIRPLUS. The kernel requests a large directory part by
// part; the next part is made while it processes the last one.
//
// It requests the first part of each directory with attributes, and makes an inode for each entry that has them. That
// takes longer than all the rest, and readers such as find(1) use names only. So the files of a first part have
// attributes only if readers use them: if files of the last directory were looked up.
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
#include <string_view>

#include "base/result.h"
#include "fs/forest.h"

// libfuse's type.
struct fuse_entry_param;

namespace weightfs::fuse {

enum class EntryForm { names, attributes };

/// A part of a directory that the kernel requests. Offsets: 1 after `.`, 2 after `..`, 2 + k after the k-th child; in a
/// directory that can change, 2 + its inode number after a child.
struct DirectoryPart {
  Ino directory;
  off_t offset;
  size_t size;  ///< the maximum, in bytes
  EntryForm form;
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

  /// False if it does not fit. The form of all entries is the same.
  bool add(const char* name, Ino ino, NodeKind kind, off_t next);
  bool add(const char* name, const fuse_entry_param& entry, off_t next);

 private:
  bool added(size_t needed, off_t next);

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

  /// A use of attributes is remembered for the time `recent`.
  DirectoryReader(Forest& forest, EntryOf entry_of, std::chrono::milliseconds recent = std::chrono::seconds(1))
      : forest_(forest), entry_of_(std::move(entry_of)), recent_(recent) {}

  /// The entries of a part. Fails as Forest::list().
  Result<Entries> read(const DirectoryPart& part);

  /// A file of the directory is looked up.
  void looked_up(Ino directory);

  /// After the reply with the entries of `part`: makes the part that the kernel will probably request next.
  void read_next(const DirectoryPart& part, const Entries& entries) noexcept;

 private:
  using Clock = std::chrono::steady_clock;

  bool are_attributes_used() const { return Clock::now() - attributes_used_.load() < recent_; }
  Result<Entries> make(const DirectoryPart& part);
  std::optional<fuse_entry_param> attributes_of(Ino ino) const;

  Forest& forest_;
  const EntryOf entry_of_;
  const std::chrono::milliseconds recent_;
  std::atomic<Clock::time_point> attributes_used_ = Clock::time_point();  // by a reader, as far as it is known
  std::atomic<EntryForm> later_form_ = EntryForm::names;  // of the last part that was not the first of its directory
  std::atomic<Ino> without_attributes_ = 0;               // the last directory whose files were listed without them
  std::mutex mutex_;                                      // guards the rest
  std::optional<std::pair<DirectoryPart, Entries>> next_;
};

}  // namespace weightfs::fuse
