// The fetcher: a process of a command or a mount that has the network and the user's keys, and reads no container. The
// process that reads them has neither (docs/security.md).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/os/descriptor.h"
#include "base/result.h"
#include "cli/options/store_options.h"
#include "protocols/cloud_settings.h"
#include "sources/source.h"

namespace weightfs {

struct Fetcher {
  Descriptor socket;                                ///< to it, for a FetchedClient; it ends when this is closed
  CloudSettings clouds = {};                        ///< without keys, and without registries
  std::shared_ptr<const MirrorTable> mirrors = {};  ///< of the sources, without their headers
  std::shared_ptr<const void> process = {};         ///< waits for its end when it is destroyed, after the socket
};

/// `options.log` receives a line for each file with mirrors that cannot be used.
/// Starts it, while this process has one thread. It reads the user's credentials, determines what the sources may
/// request, and enters a sandbox of its own. Fails as read_credentials() and enter_sandbox() do, and with io.
Result<Fetcher> start_fetcher(const std::vector<std::string>& sources, const OpenOptions& options,
                              const StoreFlags& flags);

}  // namespace weightfs
