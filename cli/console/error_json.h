// A failure in the JSON of `info`.
#pragma once

#include <string_view>

#include "base/result.h"
#include "base/values/value.h"

namespace weightfs {

/// {"code", "message"}: a name for programs (formats/other_files.h), and the text that standard error has.
Map error_fields(const Error& error);

/// {"source", "error"}: a source that cannot be read.
Map failed_source(std::string_view source, const Error& error);

}  // namespace weightfs
