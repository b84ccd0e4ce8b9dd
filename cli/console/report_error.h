// Messages on standard error.
#pragma once

#include <string>

#include "cli/exit.h"

namespace weightfs {

/// Prints `weightfs: <line>` to standard error, as one line without control characters.
void log_to_stderr(const std::string& line);

/// Prints `weightfs: <message>` to standard error and returns the exit status of the error.
Exit report_error(const Error& error);

/// Prints `weightfs: <message>` and returns `status`.
Exit report_error(const Error& error, Exit status);

}  // namespace weightfs
