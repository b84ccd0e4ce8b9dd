// The options of what a server shows, of a mount and of an HTTP server.
#pragma once

#include <chrono>

#include "cli/console/log.h"
#include "cli/options/option.h"
#include "fs/layout/source_tree.h"
#include "fs/reading/prefetch.h"

namespace weightfs {

/// Where the values are.
struct ServedFields {
  Level& log_level;
  PrefetchMode& prefetch;
  bool& require_complete;
  ModelFileOptions& model_files;
  std::chrono::seconds& follow;  ///< resolve names again after this time; 0: never
};

/// --log-level, --prefetch, --require-complete, --shard-size, --layout, --follow.
Options served_options(ServedFields fields);

}  // namespace weightfs
