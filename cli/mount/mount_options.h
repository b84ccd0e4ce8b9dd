// The options of `weightfs mount`: one table for the command line, -o, fstab and the config of a service.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "cli/console/log.h"
#include "cli/options/option.h"
#include "cli/options/store_options.h"
#include "fs/fuse/session.h"
#include "fs/layout/source_tree.h"
#include "fs/reading/prefetch.h"

namespace weightfs {

struct MountOptions {
  OpenOptions open_options;
  StoreFlags store_flags;
  fuse::Ownership ownership;
  std::vector<std::string> kernel;       ///< passed to the kernel and fusermount3, such as "allow_other"
  std::chrono::seconds follow{0};        ///< resolve names again after this time; 0: never
  std::chrono::seconds idle_timeout{0};  ///< unmount after this time without use; 0: never
  Level log_level = Level::info;
  PrefetchMode prefetch = PrefetchMode::in_order;
  ModelFileOptions model_files;
  bool require_complete = false;  ///< fail if the model is incomplete
  bool passthrough = true;        ///< let the kernel read whole local files itself, if it can
  bool io_uring = false;          ///< receive requests by rings (fs/fuse/rings.h), if that is possible
};

/// The options that only mount has, without all_source_options().
Options own_mount_options(MountOptions& options);

/// All options that -o accepts.
Options all_mount_options(MountOptions& options);

/// Whether users other than the mounting user have access: --allow-other.
bool is_for_others(const MountOptions& options);

/// The origin of the words of -o. In fstab, options of fstab(5) and mount(8) are ignored; with -s of mount(8), all
/// unknown options are.
enum class OptionOrigin { command_line, fstab, sloppy_fstab };

/// Applies the options of an -o. Fails with unsupported; the message names the word, and suggests similar options.
Result<void> parse_mount_options(MountOptions& options, std::string_view text, OptionOrigin origin);

}  // namespace weightfs
