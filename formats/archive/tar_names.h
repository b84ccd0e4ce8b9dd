// What headers of a tar say twice, so that programs read different members: libarchive, GNU tar and Python's tarfile.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace weightfs::archive::tar {

/// What the headers of one member say in two ways; nothing if they do not. `headers` are the blocks of all its headers,
/// from the first extended one on.
std::optional<std::string> contradiction(std::string_view headers);

/// Whether the last of these headers is one of GNU tar with times where ustar has a part of the name, which tarfile
/// takes for it.
bool has_times_as_name(std::string_view headers);

/// The path without `..`, if it stays inside; nothing otherwise, or if it has none.
std::optional<std::string> without_dots(std::string_view path);

}  // namespace weightfs::archive::tar
