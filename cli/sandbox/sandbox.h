// The second wall behind the parsers (docs/security.md): what a process that reads containers can still do when one of
// them has taken it over.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/values/value.h"
#include "cli/options/store_options.h"
#include "cli/sandbox/broker.h"
#include "cli/sandbox/landlock.h"
#include "sources/location.h"

namespace weightfs {

/// Which layers are active in this process.
struct SandboxStatus {
  std::string off;  ///< why the sandbox is off; empty: it is on
  bool no_new_privs = false;
  std::vector<std::string> capabilities;  ///< those that are left
  bool seccomp = false;
  int landlock = 0;  ///< its version; 0: not active
  Network network = Network::connect;
};

/// The same for status.json.
Map as_value(const SandboxStatus& status);

/// What a process that reads these sources uses.
struct SandboxAccess {
  FileAccess files;
  Network network;
};

/// Confines this process, which must have one thread, to `access`: no_new_privs, no capabilities (but
/// CAP_DAC_READ_SEARCH for root where a source belongs to another user and Landlock limits what can be read with it),
/// Landlock, seccomp. A layer that the kernel does not have is left out, and `warn` is told; builds with sanitizers are
/// not confined at all. Fails with io when a layer that the kernel has cannot be activated.
Result<SandboxStatus> enter_sandbox(const SandboxAccess& access, const std::function<void(const std::string&)>& warn);

/// What is active where the sandbox is off, of which `warn` is told.
SandboxStatus without_sandbox(const std::function<void(const std::string&)>& warn);

/// The access that `sources` need: the sources read-only (of a file its directory, too), files that links in them lead
/// to, the stores of other programs, the cache read-write, and what the C library and libcurl read.
/// Makes the cache's directory, since rules cannot name what does not exist.
/// As root only links that root owns count, unless `access` says that all are followed.
SandboxAccess access_for(const std::vector<std::string>& sources, const Access& access, const Storing& storing);

/// Confines a command that reads a source: starts the broker that opens temporary files for it as long as the result
/// lives, and enters the sandbox. Null where the sandbox is off, of which `warn` is told. Fails with io.
Result<std::unique_ptr<Broker>> confine_command(const std::string& source, const Access& access, const Storing& storing,
                                                const std::function<void(const std::string&)>& warn);

}  // namespace weightfs
