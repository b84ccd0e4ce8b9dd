// The FUSE features of the kernel, from the INIT request that it sends to a new server.
#pragma once

#include <cstdint>

#include "base/result.h"

namespace weightfs {

struct KernelFeatures {
  uint32_t major;  ///< of the protocol: 7
  uint32_t minor;
  bool passthrough;      ///< reads of a plain file can bypass the server
  uint64_t read_ahead;   ///< default read-ahead, in bytes
  uint64_t max_request;  ///< maximum request size, in bytes
};

/// Mounts a FUSE file system in private namespaces of a child process, and reads the kernel's first request. Fails with
/// io if that is not permitted, or without /dev/fuse. To be called while the process has one thread.
Result<KernelFeatures> kernel_features();

}  // namespace weightfs
