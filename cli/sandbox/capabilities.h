// Drops the capabilities (capabilities(7)) of this process.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace weightfs::sandbox {

enum class Keep {
  nothing,
  read_all_files,  ///< CAP_DAC_READ_SEARCH, if the process has it
  backing_files,   ///< CAP_SYS_ADMIN, if the process has it
};

/// Drops all other capabilities for good: from every set of this thread, and, if permitted (to root), from its bounding
/// set. Fails with io if the kernel refuses.
Result<void> drop_capabilities(Keep keep);

/// The permitted capabilities of this thread, such as "dac_read_search"; others by number.
std::vector<std::string> permitted_capabilities();

}  // namespace weightfs::sandbox
