// The command line options of how sources are read.
#pragma once

#include "cli/options/command.h"
#include "cli/options/store_options.h"
#include "fs/views/layout_parts.h"
#include "sources/source.h"

namespace weightfs {

/// The options of how a container is opened: --format, --verbose, --all, --file, --follow-links.
Options opening_options(OpenOptions& open_options);

/// SOURCE of a command that reads one, and the options of how it is read.
struct SourceInput {
  std::string source;
  StoreFlags store_flags;
  OpenOptions open_options;
  LayoutParts layout = {};
  bool takes_paths = false;  ///< SOURCE may be a directory in a model, in a mount (OpenedSource::path)
};

/// --layout: which entries the directory of a model has.
Option layout_option(LayoutParts& layout);

/// The argument SOURCE.
Argument source_argument(SourceInput& input);

/// The options of a command that reads a source: its own, and those of every such command under the headings Reading,
/// Cache and Network. One of `own` replaces the one of that name.
std::vector<OptionGroup> source_options(SourceInput& input, Options own = {});
std::vector<OptionGroup> source_options(OpenOptions& open_options, StoreFlags& store_flags, Options own);

/// The options of every command that reads a source, in one list.
Options all_source_options(OpenOptions& open_options, StoreFlags& store_flags);

}  // namespace weightfs
