// FUSE passthrough: the kernel reads a file that is a whole local file by itself, without requests to the server (Linux
// 6.9). libfuse before 3.17 does not know it, so its replies to INIT and OPEN are completed here.
#pragma once

#include <sys/types.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/source.h"
#include "fs/tree/grafted_trees.h"

// libfuse's types.
struct fuse_conn_info;
struct fuse_file_info;
struct fuse_req;
struct fuse_session;

namespace weightfs::fuse {

/// Registers an open regular file at the device of a mount and returns its backing id, or -1 with errno set. Needs
/// CAP_SYS_ADMIN.
int open_backing_file(int device, int file);
/// Whether the id was registered.
bool close_backing_file(int device, uint32_t id);

/// The commands of ioctl(2) that these two use (Linux 6.9).
std::array<unsigned long, 2> backing_file_commands();

/// Registers files for a process that lacks CAP_SYS_ADMIN. Callable from any thread.
class BackingFiles {
 public:
  virtual ~BackingFiles() = default;
  BackingFiles() = default;
  BackingFiles(const BackingFiles&) = delete;
  BackingFiles& operator=(const BackingFiles&) = delete;

  /// To be called with the device of the mount, before open(). On failure the message is the reason.
  virtual Result<void> start(int device) = 0;

  /// The backing id of an open regular file, which is not 0; the kernel keeps the file open until close(). On failure
  /// the message is the reason.
  virtual Result<uint32_t> open(int file) = 0;
  virtual void close(uint32_t id) = 0;

  /// Releases the device of the mount. Later calls of open() fail.
  virtual void stop() = 0;
};

using BackingFilesPtr = std::unique_ptr<BackingFiles>;

/// How the bytes of an open file are read.
struct Tier {
  uint32_t backing_id = 0;  ///< by the kernel, from this backing file; 0: by requests to the server
  std::string reason = {};  ///< why not by the kernel

  const char* name() const { return backing_id != 0 ? "passthrough" : "server"; }
};

/// Chooses the tier of each file that is opened. Callable from any thread.
class Passthrough {
 public:
  /// Registers files with `files`; if that is null, no file passes through, for `reason`.
  explicit Passthrough(BackingFilesPtr files, std::string reason = {});

  /// An inode with open files, which share its tier: the kernel does not permit two tiers of one inode. Destroyed with
  /// the last open file.
  class OpenInode;
  using OpenInodePtr = std::shared_ptr<const OpenInode>;

  /// The inode of a file that is being opened. Fails if it passes through already, and its bytes have changed. If the
  /// file does not pass through, `on_first` is called for the first open file, and the others wait until it returns.
  Result<OpenInodePtr> open(Ino ino, const Source& source, const std::function<void()>& on_first = {});
  static const Tier& tier(const OpenInode& inode);

  /// To be called with the device of the mount, before requests are served.
  void start(int device);

  /// To be called by the operation init: a libfuse that knows passthrough requests it itself.
  void request_feature(fuse_conn_info& connection);

  /// To be called with each request, before it is processed: reads in INIT whether the kernel offers passthrough.
  void inspect_request(std::span<const std::byte> request);
  /// The reply to INIT that also requests passthrough; nothing if `reply` is not to be changed.
  std::optional<std::vector<std::byte>> completed_reply(std::span<const std::byte> reply);
  /// Whether the reply to INIT is still to be completed.
  bool expects_init() const { return expects_init_; }

  /// Releases the device of the mount.
  void stop();

  /// Why no file passes through; empty if files can.
  std::string unavailable() const;

  uint64_t passthrough_opens() const { return passthrough_opens_; }  ///< files opened so far
  /// Files opened so far that the server reads, by reason; beyond kMaxReasons under "other".
  std::map<std::string, uint64_t> server_opens() const;
  static constexpr size_t kMaxReasons = 32;

  struct OpenFile {
    Ino ino;
    Tier tier;
  };
  /// The inodes with open files, by number; at most `limit`.
  std::vector<OpenFile> open_files(size_t limit) const;

 private:
  Tier choose(const Source& source);
  void count(const Tier& tier);
  void set_unavailable(std::string reason);
  void forget(Ino ino, uint32_t backing_id);

  const BackingFilesPtr files_;
  std::atomic<uint64_t> passthrough_opens_ = 0;
  std::atomic<bool> expects_init_ = false;
  std::atomic<uint64_t> init_ = 0;  // the number of the request INIT
  mutable std::mutex mutex_;        // guards the rest
  std::string unavailable_;
  std::map<std::string, uint64_t> server_opens_;
  std::map<Ino, std::weak_ptr<OpenInode>> inodes_;
};

/// fuse_reply_open() for a file of that tier.
int reply_open(fuse_req* request, const fuse_file_info& file, const Tier& tier);

}  // namespace weightfs::fuse
