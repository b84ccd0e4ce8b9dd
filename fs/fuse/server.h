// The state of a FUSE session: its open files, the attributes in replies, and the errors that were logged.
#pragma once

#include <sys/stat.h>

#include <atomic>
#include <limits>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/os/memory.h"
#include "fs/fuse/directory_reader.h"
#include "fs/fuse/interrupts.h"
#include "fs/fuse/session_params.h"
#include "fs/fuse/small_files.h"
#include "fs/reading/open_file.h"

namespace weightfs::fuse {

/// The beginning of the names of extended attributes that files can have.
inline constexpr std::string_view kXattrNamespace = "user.";

/// The read-ahead of a mount, if it can be set: requests of 1 MiB instead of 128 KiB.
inline constexpr int kReadaheadKiB = 1024;

/// A read may wait until its data has been unpacked or downloaded, and blocks a thread. The limit is higher than the
/// number of reads that wait at once, so that other requests are still served. A waiting process has a few reads in
/// flight (a megabyte each, up to the read-ahead).
inline constexpr unsigned kMaxThreads = 1024;

/// An open file of the kernel, until its release or the end of the session.
struct Handle : std::enable_shared_from_this<Handle> {
  /// `its_inode` is null for a file of .weightfs/, whose reads are not a use of the mount.
  Handle(Ino ino, SourcePtr source, Passthrough::OpenInodePtr its_inode, Prefetch* prefetch)
      : file(ino, std::move(source), prefetch), inode(std::move(its_inode)), is_counted(inode != nullptr) {}

  OpenFile file;
  const Passthrough::OpenInodePtr inode;
  const bool is_counted;
};
using HandlePtr = std::shared_ptr<Handle>;

/// The size of a block in the attributes of files and of the file system, in bytes.
inline constexpr blksize_t kBlock = 4096;

/// The kernel may cache every reply, because it is told of every change. It converts seconds to jiffies; this is the
/// maximum.
inline constexpr double kForever = std::numeric_limits<int32_t>::max();

/// For how many seconds the kernel may cache these attributes.
double timeout_of(const Attributes& attributes);

/// The user data of a session. Callable from any thread.
class Server {
 public:
  Server(Forest& forest, RequestStatistics& statistics, const SessionParams& params);
  ~Server();

  /// To be called before requests are served.
  void start(fuse_session* session) { session_ = session; }
  /// To be called before a signal cancels pending requests: errors are not logged any more.
  void end() { is_ending_ = true; }

  Forest& forest() { return forest_; }
  RequestStatistics& statistics() { return statistics_; }
  /// Whether the containers do not fit into memory twice, as pages of their files and of the mount. Then one of the two
  /// is not kept.
  bool is_memory_short() const { return forest_.container_bytes() > available_memory() / 2; }
  Passthrough& passthrough() { return *params_.passthrough; }
  Rings& rings() { return *params_.rings; }
  Prefetch* prefetch() { return params_.prefetch; }
  DirectoryReader& directories() { return directories_; }
  struct stat stat_of(Ino ino, const Attributes& attributes) const;
  /// For replies, which the kernel caches.
  fuse_entry_param entry_of(Ino ino, const Attributes& attributes) const;

  Result<HandlePtr> open(Ino ino);
  /// Its number for the kernel, until close().
  uint64_t add(HandlePtr handle);
  void close(uint64_t handle);

  /// Has the kernel drop its listing of a directory. Not before the reply to a request for it, which may hold its
  /// pages.
  void forget_listing(Ino directory);

  InterruptibleRequests& interruptible_requests() { return interruptible_requests_; }

  /// A request for `ino` has failed: logs it, and has its directory compared with the disk.
  void failed(Operation operation, Ino ino, const Error& error);

  /// Logs a failed request, once per message; not_found is not logged.
  void log(Operation operation, const Error& error);

 private:
  void store_small(Ino ino, const Source& source);

  Forest& forest_;
  RequestStatistics& statistics_;
  const SessionParams& params_;
  fuse_session* session_ = nullptr;
  std::atomic<bool> is_ending_ = false;
  SmallFiles small_files_;
  DirectoryReader directories_;
  std::mutex mutex_;  // guards the rest
  std::set<std::string> logged_;
  std::unordered_map<uint64_t, HandlePtr> open_;
  InterruptibleRequests interruptible_requests_;
};

}  // namespace weightfs::fuse
