// Temporary files of a confined process. The broker opens them, because a rule that permits creating files in /tmp
// would also permit writing to other files there.
#pragma once

#include <string_view>

#include "cli/sandbox/broker.h"

namespace weightfs::sandbox {

/// The request. Its argument is the index in temporary_places(), as a digit.
inline constexpr char kOpenTemporaryFile = 't';

/// Runs in the broker: returns a descriptor from open_nameless(), or its errno as the status.
BrokerReply open_temporary_file(std::string_view argument);

/// Redirects open_nameless() of this process to the broker, which must outlive its last use. To be called while the
/// process has one thread.
void use_broker_for_temporary_files(const Broker& broker);

}  // namespace weightfs::sandbox
