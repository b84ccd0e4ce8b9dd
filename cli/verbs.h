// The verbs of the command line. Each adds itself to the parser; main() runs the one that was given.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <optional>
#include <string>

#include "base/result.h"
#include "cli/console/report_error.h"
#include "cli/options/open_options.h"
#include "cli/options/store_options.h"
#include "fs/source_tree.h"

namespace weightfs {

/// Runs a verb with its parsed arguments.
using Run = std::function<Exit()>;

void add_mount(CLI::App& app, Run& run);
void add_umount(CLI::App& app, Run& run);
void add_mounts(CLI::App& app, Run& run);
void add_doctor(CLI::App& app, Run& run);
void add_ls(CLI::App& app, Run& run);
void add_cat(CLI::App& app, Run& run);
void add_info(CLI::App& app, Run& run);
void add_verify(CLI::App& app, Run& run);
void add_fetch(CLI::App& app, Run& run);
void add_cache(CLI::App& app, Run& run);
void add_service(CLI::App& app, Run& run);
void add_completion(CLI::App& app, Run& run);

}  // namespace weightfs
