#include "cli/options/served_options.h"

#include "cli/options/open_options.h"

namespace weightfs {
namespace {

constexpr SizeRule kShardSize{"is not a size; use a number from 1M on, such as 2G, or 0 for no shards",
                              [](uint64_t bytes) { return bytes == 0 || bytes >= uint64_t{1} << 20; }};

}  // namespace

Options served_options(ServedFields fields) {
  return {
      choice("log-level", "LEVEL", "minimum severity to log: error, warning, info, debug (default: info)",
             "a log level",
             {{"error", Level::error}, {"warning", Level::warning}, {"info", Level::info}, {"debug", Level::debug}},
             fields.log_level),
      choice("prefetch", "off|auto|all",
             "what to download before it is read: nothing, the tensors after those read in order, everything (default: "
             "auto)",
             "valid", {{"off", PrefetchMode::off}, {"auto", PrefetchMode::in_order}, {"all", PrefetchMode::all}},
             fields.prefetch),
      flag("require-complete", "fail if a part of the model is missing or cannot be read", fields.require_complete),
      size("shard-size", "size of a file in views/sharded/, such as 2G; 0 means no such files (default: 5 GB)",
           fields.model_files.shard_size, kShardSize),
      layout_option(fields.model_files.layout),
      seconds("follow", "resolve names again, and list directories again, at this interval; 0 means never (default: 0)",
              kZeroIsNever, fields.follow),
  };
}

}  // namespace weightfs
