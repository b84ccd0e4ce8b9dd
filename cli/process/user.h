// The users of this machine, as people know them.
#pragma once

#include <sys/types.h>

#include <string>

namespace weightfs {

/// The name of a user; its number when it has none.
std::string user_name(uid_t user);

}  // namespace weightfs
