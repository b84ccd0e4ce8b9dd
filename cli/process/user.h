// Names of users.
#pragma once

#include <sys/types.h>

#include <string>

namespace weightfs {

/// The name of a user; its number if it has no name.
std::string user_name(uid_t user);

}  // namespace weightfs
