// The sandbox (docs/security.md): limits what a process that reads containers can do after a container has exploited a
// parser.
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
#include "cli/sandbox/output_file.h"
#include "sources/source.h"

namespace weightfs::sandbox {

struct SandboxAccess;

/// Which layers are active in this process.
struct SandboxStatus {
  std::string off;  ///< why the sandbox is off; empty if it is on
  bool no_new_privs = false;
  std::vector<std::string> capabilities;  ///< the remaining ones
  bool seccomp = false;
  int landlock = 0;  ///< version; 0: not active
  Network network = Network::connect;
  bool has_fetcher = false;  ///< another process, which reads no container, has the network for this one
  MayOpen proof = {};

 private:
  SandboxStatus() = default;
  friend Result<SandboxStatus> enter_sandbox(const SandboxAccess&, const std::function<void(const std::string&)>&);
  friend SandboxStatus without_sandbox(const std::function<void(const std::string&)>&);
};

/// The status as in status.json.
Map as_value(const SandboxStatus& status);

/// The access that a process needs to read sources.
struct SandboxAccess {
  FileAccess files;
  Network network;
  bool accepts = false;       ///< connections, on sockets that listen already
  bool watches = false;       ///< directories of the sources, until it ends
  bool passes_files = false;  ///< open files, to a broker or the fetcher
  bool rings = false;         ///< requests of the kernel come by io_uring
};

/// Confines this process, which must have one thread, to `access`: no_new_privs, no capabilities (except
/// CAP_DAC_READ_SEARCH for root, if a source belongs to another user and Landlock limits the readable files), Landlock,
/// seccomp. A layer that the kernel does not support is skipped with a warning to `warn`. Builds with sanitizers are
/// not confined. Without the network the environment loses keys and tokens. Fails with io if a supported layer cannot
/// be activated.
Result<SandboxStatus> enter_sandbox(const SandboxAccess& access, const std::function<void(const std::string&)>& warn);

/// The status without a sandbox; warns through `warn`.
SandboxStatus without_sandbox(const std::function<void(const std::string&)>& warn);

/// The access that `sources` need: the sources read-only (of a file its directory, too), the targets of links in them,
/// other programs' stores, the cache read-write, and the files read by the C library. Creates the directory
/// of the cache, because a rule needs an existing path. For root only links owned by root are followed, unless `access`
/// follows all links.
SandboxAccess access_for(const std::vector<std::string>& sources, const Access& access, const StoreFlags& store_flags);

/// The access of the fetcher: the network, and the files read by the C library and libcurl, and those with the user's
/// keys: logins, tokens, and `key_files` (s3::Settings::files, and that of --source-token-file).
SandboxAccess access_for_fetcher(const std::vector<std::string>& key_files);

/// The broker of a command: it opens temporary files, unless the sandbox is off, and renames or removes `output` if
/// that is not null, even if the command is killed. Null if there is nothing to do. Fails with io.
Result<std::unique_ptr<Broker>> start_command_broker(const StoreFlags& store_flags, Output* output);

/// Confines the broker of backing files: of the capabilities it keeps CAP_SYS_ADMIN. Fails if the kernel refuses.
Result<void> confine_broker_of_backing_files();

}  // namespace weightfs::sandbox
