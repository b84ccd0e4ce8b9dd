// The process that runs the credential helpers of the user. It has the user's rights, and reads no container, no answer
// of a server and no key. It runs only helpers that the user's files name for the registries of the sources when it
// starts, each by the path that it has on PATH then.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/options/store_options.h"
#include "protocols/credential_helpers.h"
#include "sources/source.h"

namespace weightfs {

/// The user's files with logins, and with --credential-helpers what runs their helpers; to be called while this process
/// has one thread, before it enters a sandbox. No process is started if the files name no helper for a source. Fails
/// with io.
Result<CredentialPaths> logins_with_helpers(const std::vector<std::string>& sources, const OpenOptions& options,
                                            const StoreFlags& flags);

}  // namespace weightfs
