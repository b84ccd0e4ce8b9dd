// The bytes of an origin on their way to a client: a read must not last as long as the origin is silent, nor after its
// client has left. Each takes a thread of the server. (docs/serve.md)
#pragma once

#include <chrono>
#include <functional>

#include "base/source.h"

namespace weightfs::mirror {

/// How long a read of a client waits for the origin.
inline constexpr std::chrono::milliseconds kMaxRead{30'000};

/// The bytes as one client reads them. A read fails with the failure of a timeout after this time, and with resource
/// when the client has left. `has_left` may be null: not known. What others read is not affected: a transfer goes on
/// for them.
SourcePtr for_client(SourcePtr bytes, std::function<bool()> has_left, std::chrono::milliseconds within = kMaxRead);

}  // namespace weightfs::mirror
