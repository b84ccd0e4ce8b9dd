// Soft links: names that are paths to other names of the file.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "formats/hdf5/file.h"

namespace weightfs::hdf5 {

/// The target of each soft link, by the path of the link.
using SoftLinks = std::map<std::string_view, std::string_view>;

/// The path without soft links to what the soft link at `path` means, whether it exists or not: as HDF5 follows it,
/// through groups and further soft links. Nothing for more than kMaxSoftLinks of them, which HDF5 refuses, and for a
/// path of kMaxNameLength or more bytes. Fails as the budget does.
Result<std::optional<std::string>> follow_soft_link(Metadata& metadata, const SoftLinks& links, std::string_view path);

/// The soft links that HDF5 follows for one path (H5L_ACC: nlinks).
inline constexpr int kMaxSoftLinks = 16;

}  // namespace weightfs::hdf5
