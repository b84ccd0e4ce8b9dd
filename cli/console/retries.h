// Reports of requests that are repeated because a server or the network fails.
#pragma once

#include <functional>
#include <string>

#include "cache/blob_store.h"

namespace weightfs {

/// Sets the callbacks: a terminal shows "retrying in 4 s: …" from the second second on; `log` gets a line when the
/// usual number of attempts has failed and requests wait for the network, and one when they are answered again.
void report_retries(http::Options& options, std::function<void(const std::string&)> log);

}  // namespace weightfs
