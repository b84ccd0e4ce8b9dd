// What `weightfs mount` can be told, on the command line, in -o, in fstab, and in the configuration of a service: one
// table for all of them.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "cli/console/log.h"
#include "cli/options/option.h"
#include "cli/options/store_options.h"
#include "fs/fuse/session.h"
#include "fs/source_tree.h"

namespace weightfs {

struct MountOptions {
  OpenOptions opening;
  Storing storing;
  Ownership ownership;
  std::vector<std::string> kernel;       ///< for the kernel and fusermount3: "allow_other"
  std::chrono::seconds idle_timeout{0};  ///< unmount when nobody has used the mount for so long; 0: never
  Level log_level = Level::info;
};

/// The options that are mount's own; those of opening_options() and store_options() are taken as well.
Options own_mount_options(MountOptions& options);

/// All that mount takes, as -o has them.
Options all_mount_options(MountOptions& options);

/// Whether users other than the mounting user are allowed in: --allow-other.
bool is_for_others(const MountOptions& options);

/// Who wrote the words of -o: in fstab there are some that mean nothing to us, and mount(8) adds some of its own; with
/// -s of mount(8) whatever is not known is passed over.
enum class Words { ours, fstab, sloppy_fstab };

/// Takes what stands in an -o. Fails with unsupported, naming the word, and those that are near it.
Result<void> take_words(MountOptions& options, std::string_view text, Words words);

}  // namespace weightfs
