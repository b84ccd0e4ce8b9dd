#include "cli/process/user.h"

#include <pwd.h>

namespace weightfs {

std::string user_name(uid_t user) {
  const passwd* entry = ::getpwuid(user);
  return entry == nullptr ? std::to_string(user) : entry->pw_name;
}

}  // namespace weightfs
