// The commands of weightfs.
#pragma once

#include "cli/console/report_error.h"
#include "cli/options/command.h"
#include "cli/options/open_options.h"
#include "cli/options/store_options.h"
#include "fs/layout/source_tree.h"

namespace weightfs {

/// The program with all of its commands, in the order of --help (cli/program.cc).
Command program();

// Each in the file of its name; ls and cat in inspect.cc.
Command mount_command();
Command umount_command();
Command mounts_command();
Command refresh_command();
Command serve_command();
Command open_command();
Command ls_command();
Command cat_command();
Command info_command();
Command stats_command();
Command diff_command();
Command plot_command();
Command export_command();
Command verify_command();
Command fetch_command();
Command cache_command();
Command service_command();
Command doctor_command();
Command completion_command();

/// Prints what completes the last of the words of a command line; nothing if that fails. `words` are SHELL, `--` and
/// the words after the program's name, or for bash the line and $COMP_WORDBREAKS. The scripts of `weightfs completion`
/// call it, as `weightfs complete`; the help does not list it.
Exit print_completions(const std::vector<std::string>& words);

}  // namespace weightfs
