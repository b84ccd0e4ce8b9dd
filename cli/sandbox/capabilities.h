// Capabilities (capabilities(7)) of this process.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace weightfs {

enum class Keep {
  nothing,
  read_all_files,  ///< CAP_DAC_READ_SEARCH, where the process has it
};

/// Gives up all other capabilities for good: from every set of this thread, and, where that is permitted (to root),
/// from its bounding set. Fails with io when the kernel refuses.
Result<void> drop_capabilities(Keep keep);

/// The names of the permitted capabilities of this thread, as "dac_read_search"; those that have no name here by
/// number.
std::vector<std::string> permitted_capabilities();

}  // namespace weightfs
