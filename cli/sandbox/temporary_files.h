// Temporary files of a confined process. Rules that let it make files in /tmp would let it write to other files there,
// so the broker opens them.
#pragma once

#include <string_view>

#include "cli/sandbox/broker.h"

namespace weightfs {

/// The request; its argument is the index in temporary_places() as a digit.
inline constexpr char kOpenTemporaryFile = 't';

/// In the broker: returns a descriptor from open_nameless(), else its errno as the status.
BrokerReply open_temporary_file(std::string_view argument);

/// Makes open_nameless() of this process ask the broker, which must live as long as temporary files are opened. Only
/// while the process has one thread.
void use_broker_for_temporary_files(const Broker& broker);

}  // namespace weightfs
