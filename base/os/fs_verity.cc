#include "base/os/fs_verity.h"

#include <linux/fsverity.h>
#include <sys/ioctl.h>

#include <cerrno>

namespace weightfs {

bool enable_fs_verity(int fd) {
  fsverity_enable_arg parameters{};
  parameters.version = 1;
  parameters.hash_algorithm = FS_VERITY_HASH_ALG_SHA256;
  parameters.block_size = 4096;
  // EEXIST: it was enabled before.
  return ::ioctl(fd, FS_IOC_ENABLE_VERITY, &parameters) == 0 || errno == EEXIST;
}

}  // namespace weightfs
