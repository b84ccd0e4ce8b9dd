// Files that belong to a model whose main file is beside them: its weights, or its structure.
#pragma once

#include <optional>
#include <string_view>

#include "formats/format.h"

namespace weightfs::other_files {

/// "the weights of an ncnn model; open net.param" for a file with these first 64 KiB. The file to open is named only if
/// it is in the folder. Nothing if the file is not known to belong to another one.
std::optional<Error> companion(const Container& container, std::string_view begin);

}  // namespace weightfs::other_files
