// Messages about a SOURCE begin with it as the user gave it.
#pragma once

#include <string>

#include "base/result.h"

namespace weightfs {

/// The error with the source, without its secrets, at the begin of its message: instead of its absolute path, of its
/// last component, or of a shorter form of its name; otherwise before the URL or the file that the message begins with.
Error error_of_source(const std::string& source, const Error& error);

}  // namespace weightfs
