// What only members of a zip can be told.
#pragma once

#include "formats/model.h"

namespace weightfs {

/// Tells a compressed member of a zip that its bytes must have the part's digest. Before it is first read; sources that
/// are no members of a zip, and parts without a digest, are left as they are.
void expect_digest(const Part& part);

}  // namespace weightfs
