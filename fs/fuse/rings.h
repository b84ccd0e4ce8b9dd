// FUSE over io_uring (Linux 6.14): the kernel passes requests in rings that it shares with the server, one for each
// processor, so that short requests need no change of threads and one system call instead of two. Needs libfuse 3.19:
// in 3.18 a reply from another thread than that of the ring can damage the ring.
//
// The thread of a ring serves the requests of one processor in turn, so it runs only what waits for nothing; other
// requests get threads of their own. Until its reply a request occupies one of kRingEntries entries of its processor.
// If all are occupied, the processor's next request waits in the kernel, which is why mounts that can use the network
// have no rings.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <span>
#include <string>

// libfuse's types.
struct fuse_conn_info;
struct fuse_lowlevel_ops;
struct fuse_req;
struct fuse_session;

namespace weightfs::fuse {

/// The requests of a processor that are served at a time. libfuse allocates the memory of their bytes, kRingRequest
/// each, for every processor.
inline constexpr size_t kRingEntries = 16;
/// The size of the largest request with rings, in bytes.
inline constexpr size_t kRingRequest = size_t{256} << 10;

/// Why this build cannot use rings; empty if it can.
std::string rings_missing();

class RequestThreads;

/// Whether the requests of a mount come by rings. Callable from any thread.
class Rings {
 public:
  /// No rings are requested if `refusal`, the reason, is not empty.
  explicit Rings(std::string refusal);

  /// The options for fuse_session_new(), each after a comma; none without rings.
  std::string session_options() const;
  /// Lets the operations of a Server pass requests to other threads.
  void add_to(fuse_lowlevel_ops& operations) const;
  /// To be called by the operation init.
  void request_feature(fuse_conn_info& connection);
  /// Waits for the requests in other threads, which are cancelled after a while, and ends the threads of the rings. To
  /// be called when the session's loop has ended.
  void stop(fuse_session* session);

  /// Why requests come by /dev/fuse; empty if they come by rings.
  std::string refusal() const;

 private:
  friend struct RingRequest;

  const std::string refusal_;
  std::atomic<const char*> unused_ = "not mounted yet";  // why no request has come by a ring; null if one has
  std::shared_ptr<RequestThreads> threads_;              // set by request_feature(), before there are rings
};

/// Where the reply of a request by a ring is copied to; empty for others.
std::span<std::byte> payload_of(fuse_req* request);

}  // namespace weightfs::fuse
