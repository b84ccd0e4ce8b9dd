// Messages about a SOURCE begin with it as the user gave it.
#pragma once

#include <string>

#include "base/result.h"

namespace weightfs {

/// The error with the source, without its secrets, at the begin of its message: instead of its absolute path, its last
/// component, or its name with another revision; else before the URL or the file that the message begins with. A
/// message that has the name of a source on a server elsewhere stays as it is.
Error error_of_source(const std::string& source, const Error& error);

}  // namespace weightfs
