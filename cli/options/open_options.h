// The command line options of how sources are read.
#pragma once

#include "cli/options/option.h"
#include "sources/source.h"

namespace weightfs {

/// The options of every verb that opens a source: --format, --all, --follow-links.
Options opening_options(OpenOptions& open_options);
void add_opening_options(CLI::App& verb, OpenOptions& open_options);

}  // namespace weightfs
