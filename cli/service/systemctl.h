// Asking systemd for something, by its own program.
#pragma once

#include <string>
#include <vector>

namespace weightfs {

/// The exit status of `systemctl` with these arguments; it says on standard error what went wrong. -1 when it cannot be
/// run.
int run_systemctl(std::vector<std::string> arguments);

}  // namespace weightfs
