#include "cli/sandbox/capabilities.h"

#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "base/os/system_error.h"
#include "base/text.h"

namespace weightfs::sandbox {
namespace {

using Sets = std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3>;

constexpr int kLast = 63;  // there are 64 bits for them

bool get_sets(Sets& sets) {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  return ::syscall(SYS_capget, &header, sets.data()) == 0;
}

bool set_sets(const Sets& sets) {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  return ::syscall(SYS_capset, &header, sets.data()) == 0;
}

// A service manager that dropped all of them may also deny capset(2).
bool is_empty(const Sets& sets) {
  return std::all_of(sets.begin(), sets.end(),
                     [](const auto& set) { return (set.permitted | set.effective | set.inheritable) == 0; });
}

// The capability to keep, or -1.
int kept_capability(Keep keep) {
  switch (keep) {
    case Keep::read_all_files:
      return CAP_DAC_READ_SEARCH;
    case Keep::backing_files:
      return CAP_SYS_ADMIN;
    case Keep::nothing:
      break;
  }
  return -1;
}

// Fails without CAP_SETPCAP, which is harmless: with no_new_privs nothing can be gained from the bounding set.
void drop_bounding_set(Keep keep) {
  for (int number = 0; number <= kLast; ++number)
    if (number != kept_capability(keep)) ::prctl(PR_CAPBSET_DROP, number, 0, 0, 0);
}

}  // namespace

Result<void> drop_capabilities(Keep keep) {
  drop_bounding_set(keep);
  ::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
  Sets had{};
  const bool known = get_sets(had);
  Sets sets{};
  if (const int kept = kept_capability(keep); kept >= 0) {
    sets[0].permitted = had[0].permitted & (1U << kept);
    sets[0].effective = sets[0].permitted;
  }
  if (known && (is_empty(had) || set_sets(sets))) return {};
  return failure(io_error("capabilities"));
}

std::vector<std::string> permitted_capabilities() {
  std::vector<std::string> names;
  Sets sets{};
  if (!get_sets(sets)) return names;
  for (unsigned number = 0; number <= kLast; ++number)
    if ((sets.at(number / 32).permitted & 1U << number % 32) != 0)
      names.push_back(number == CAP_DAC_READ_SEARCH ? "dac_read_search" : std::to_string(number));
  return names;
}

}  // namespace weightfs::sandbox
