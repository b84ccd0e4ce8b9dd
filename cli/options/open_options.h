// The command line options of how sources are read.
#pragma once

#include "cli/options/command.h"
#include "cli/options/store_options.h"
#include "sources/source.h"

namespace weightfs {

/// The options of every verb that opens a source: --format, --all, --follow-links.
Options opening_options(OpenOptions& open_options);

/// SOURCE, of a command that reads one.
Argument source_argument(std::string& source);

/// The options of such a command: its own, and those of every command that reads a source.
std::vector<OptionGroup> source_options(OpenOptions& open_options, StoreFlags& store_flags, Options own = {});

}  // namespace weightfs
