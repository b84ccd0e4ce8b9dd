// weightfs-generator: what systemd runs at boot and at each reload to make units of what is configured
// (systemd.generator(7)). Mounting at the first access needs it: an automount unit is named after its path, so it
// cannot be an instance of a template.
#pragma once

#include <string_view>

#include "cli/exit.h"

namespace weightfs {

/// Whether a program of this name (argv[0]) is the generator.
bool is_generator(std::string_view program);

/// For each config with AUTOMOUNT=yes writes an automount unit, wanted by multi-user.target, and the mount unit behind
/// it into the directory argv[1]. A config that is wrong is passed over with a line: it must not keep the machine from
/// starting.
Exit generate(int argc, char** argv);

}  // namespace weightfs
