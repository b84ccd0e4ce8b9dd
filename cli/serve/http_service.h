// The server of weightfs-serve@NAME.service.
#pragma once

#include <string>

#include "cli/exit.h"

namespace weightfs {

/// Serves the sources of a config (SOURCE, OPTIONS) over HTTP, on the sockets of the service manager unless OPTIONS has
/// `listen`. Reports to the service manager.
Exit serve_http_service(const std::string& path);

/// Prints the config as JSON, or its error.
Exit show_http_service(const std::string& path);

}  // namespace weightfs
