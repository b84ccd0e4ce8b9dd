// Uses a device that another process, or this one, has mounted already for a session of libfuse.
#pragma once

#include "fs/fuse/passthrough.h"

namespace weightfs::fuse {

/// Uses `device` for the session, whose user data is a Server with that Passthrough. Returns 0, or another number if
/// libfuse refuses the device, as fuse_session_mount().
int attach_device(fuse_session* session, Passthrough& passthrough, int device);

}  // namespace weightfs::fuse
