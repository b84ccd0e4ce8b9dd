// Failures as values and as text.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "base/values/value.h"

namespace weightfs {

/// {"code", "message"}: a name for programs (formats/other_files.h), and the text that standard error has.
Map error_fields(const Error& error);

/// {"source", "error"}: a source that cannot be read.
Map failed_source(std::string_view source, const Error& error);

/// The message without the name of the file that it begins with, if that is the path or its last component.
std::string without_name(std::string_view path, const std::string& message);

/// An error of the model at a path, which its message then begins with.
Error error_at(std::string_view path, const Error& error);

}  // namespace weightfs
