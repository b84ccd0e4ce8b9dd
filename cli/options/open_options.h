// The options that say how a source is read.
#pragma once

#include "cli/options/option.h"
#include "sources/source.h"

namespace weightfs {

/// What every verb that opens a source takes: --format, --all.
Options opening_options(OpenOptions& opening);
void add_opening_options(CLI::App& verb, OpenOptions& opening);

}  // namespace weightfs
