// Decides whether a process needs the network, before the sandbox fixes it.
#pragma once

#include <string>
#include <vector>

#include "cli/options/store_options.h"
#include "sources/source.h"

namespace weightfs::sandbox {

/// Sets `offline` for sources that need no network: names of the Hub if the environment says so, and files and
/// directories of models none of whose parts is at a URL (semantics 14.3). To find that out, a child process with the
/// rights of --offline opens them; what can have no such part by its first bytes is not opened. A directory of several
/// models keeps the network. To be called while this process has one thread.
void settle_network(const std::vector<std::string>& sources, const OpenOptions& options, StoreFlags& store_flags);

/// Whether opening a path shows that reading it needs the network: a part is at a URL, or it is a directory of several
/// models, which are not opened. False if it cannot be opened.
bool has_remote_parts(const std::string& path, OpenOptions options, MayOpen proof);

}  // namespace weightfs::sandbox
