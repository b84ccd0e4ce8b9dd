// The table of blocks on a screen.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "formats/summary/blocks.h"
#include "formats/summary/summary.h"
#include "report/text/style.h"

namespace weightfs::info {

/// The header and a line for each block; none if there are no blocks. A cell that does not fit is shortened.
std::vector<std::string> block_table(std::span<const summary::Block> blocks, const summary::Summary& summary,
                                     const Style& style);

}  // namespace weightfs::info
