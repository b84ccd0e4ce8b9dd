// Formats of models and of data that are known and not supported.
#pragma once

#include <optional>
#include <string_view>

#include "formats/format.h"

namespace weightfs::other_files {

/// "a TensorRT engine: not supported", or "a Parquet table, not a model", by the file's name and its first 64 KiB.
std::optional<Error> unsupported(const Container& container, std::string_view begin);

}  // namespace weightfs::other_files
