// The options of `weightfs info` that ask whether a model fits into memory.
#pragma once

#include <optional>

#include "cli/options/option.h"
#include "report/info/memory.h"

namespace weightfs {

/// The options; each of them asks the question.
Options memory_options(std::optional<info::MemoryQuestion>& question);

}  // namespace weightfs
