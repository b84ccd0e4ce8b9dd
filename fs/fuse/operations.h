// The operations of a FUSE session: translates the requests of the kernel to calls of the Forest and of open files.
#pragma once

#include "fs/fuse/server.h"

namespace weightfs::fuse {

/// The operations for fuse_session_new(), whose user data is a Server.
fuse_lowlevel_ops operations();

}  // namespace weightfs::fuse
