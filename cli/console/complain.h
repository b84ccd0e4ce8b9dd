// Messages on standard error.
#pragma once

#include <string>

#include "cli/exit.h"

namespace weightfs {

/// Prints `weightfs: <line>` to standard error, as one line without control characters.
void log_to_stderr(const std::string& line);

/// Prints `weightfs: <message>` to standard error and gives the exit status of the failure.
Exit complain(const Error& error);

}  // namespace weightfs
