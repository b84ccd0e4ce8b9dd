// weightfs-generator: run by systemd at boot and at each reload to create units from the configs
// (systemd.generator(7)). An automount unit is named after its path, so it cannot be an instance of a template.
#pragma once

#include <string_view>

#include "cli/exit.h"

namespace weightfs::service {

/// Whether argv[0] is the name of the generator.
bool is_generator(std::string_view program);

/// For each config with AUTOMOUNT=yes, writes an automount unit, wanted by multi-user.target, and its mount unit into
/// the directory argv[1]. An invalid config is skipped with a log message, so that it cannot prevent booting.
Exit generate(int argc, char** argv);

}  // namespace weightfs::service
