// What the kernel's FUSE offers: said by the kernel itself to a server that it greets, and forgets at once.
#pragma once

#include <cstdint>

#include "base/result.h"

namespace weightfs {

struct KernelFeatures {
  uint32_t major;  ///< of the protocol: 7
  uint32_t minor;
  bool passthrough;          ///< a server may hand reads of a plain file over to the kernel
  uint64_t read_ahead;       ///< bytes that it reads ahead, unless it is told otherwise
  uint64_t largest_request;  ///< bytes
};

/// Mounts a FUSE file system where only a child process sees it (in namespaces of its own), and reads the kernel's
/// first request. Fails with io where that is not allowed, and without /dev/fuse. Only while the process has one
/// thread.
Result<KernelFeatures> kernel_features();

}  // namespace weightfs
