// What the kernel asks, answered by asking the Forest: the operations of a FUSE session. No decision is made here.
#pragma once

#include <sys/stat.h>

#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>

#include "fs/fuse/interrupts.h"
#include "fs/fuse/session.h"

namespace weightfs {

/// The kernel reads this far ahead where it lets us say so: one request a megabyte instead of eight.
inline constexpr int kReadAheadKiB = 1024;

/// A reader may have to wait until what it reads has been unpacked or fetched, and a thread waits with it: there are
/// more threads than reads ever wait, so that all else is answered meanwhile; but few stay when there is nothing to do.
/// A process that waits has a few reads under way (a megabyte each, as far as the kernel reads ahead).
inline constexpr unsigned kMostThreads = 1024;
inline constexpr unsigned kIdleThreads = 10;

/// What the user data of a session points to. Callable from any thread.
class Server {
 public:
  /// Whether the kernel keeps what was read once its file is opened again.
  enum class Pages { kept, dropped };

  Server(Forest& forest, Statistics& statistics, const Mounting& mounting);
  ~Server();

  Forest& forest() { return forest_; }
  Statistics& statistics() { return statistics_; }
  Pages pages() const { return mounting_.drop_pages ? Pages::dropped : Pages::kept; }
  struct stat stat_of(Ino ino, const Attributes& attributes) const;

  /// A file that is open: until release, or until the end where the kernel does not get to that.
  class Handle;
  uint64_t open(Ino ino, SourcePtr source);
  void close(uint64_t handle);

  Waits& waits() { return waits_; }

  /// Says why a request failed, once for each reason; what merely is not there needs no word.
  void log(const Error& error);

 private:
  Forest& forest_;
  Statistics& statistics_;
  const Mounting& mounting_;
  std::mutex mutex_;  // guards the rest
  std::set<std::string> said_;
  std::unordered_map<uint64_t, std::unique_ptr<Handle>> open_;
  Waits waits_;
};

/// For fuse_session_new, whose user data is a Server.
fuse_lowlevel_ops operations();

}  // namespace weightfs
