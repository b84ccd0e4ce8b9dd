// The process that serves models over HTTP: its stages, from the sockets to the last response.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cli/console/log.h"
#include "cli/exit.h"
#include "cli/mount_server/server_state.h"
#include "cli/serve/http_options.h"

namespace weightfs {

struct HttpParams {
  std::vector<std::string> sources;
  HttpOptions options;
  std::string token = {};      ///< that a request must have; else that of the options
  bool takes_files = false;    ///< accepts files that are dropped into the page; not with TLS
  bool opens_browser = false;  ///< shows the first URL in a browser, if there is one
  /// Called when requests are answered, with the URLs, and with what clients copy (Protocols::invitations()): none for
  /// a local socket, and unless messages of level info are logged.
  std::function<void(const ServerState&, const std::vector<std::string>& urls,
                     const std::vector<std::string>& invitations)>
      on_usable = {};
  std::function<void(const ServerState&)> on_tick = {};  ///< every second
  std::function<void()> on_end = {};                     ///< when a signal ends the server
};

/// Serves until SIGINT or SIGTERM; the responses in progress are completed then. The order is a rule of the sandbox
/// (docs/security.md): sockets, keys, token and log are opened, then the sandbox is entered, then models are read. A
/// failure is logged. To be called while the process has one thread.
Exit serve_http(HttpParams params, Log& log);

}  // namespace weightfs
