// .weightfs/ in the root of a mount, hidden from listings: the status, statistics, metrics and log of the mount.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cli/mount_server/server_state.h"
#include "fs/tree/tree.h"

namespace weightfs {

/// The directory with status.json, summary.json, stats.json, metrics (in the text format of Prometheus) and log.
/// `state` must outlive the tree. `add` adds what only this server has.
TreePtr status_tree(const ServerState& state, const std::function<void(TreeBuilder&)>& add = {});

/// A one-line summary: "1.2 GiB read, 2 files open, 20.0 MiB fetched; fetching model.gguf, 40 %".
std::string summary_of(const ServerState& state);

/// The content of stats.json, as lines for a log.
std::vector<std::string> statistics_of(const ServerState& state);

}  // namespace weightfs
