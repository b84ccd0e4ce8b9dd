// A SOURCE that is the URL of a tree of `weightfs serve`: its models are opened by their files, which are in `files/`.
#pragma once

#include <optional>
#include <string>

#include "sources/source.h"

namespace weightfs {

/// The model or the directory of models at a URL that ends with `/`; nothing if the server is not `weightfs serve`, and
/// offline. Requests the listing of the URL; those below are requested when they are entered.
Result<std::optional<SourceEntry>> find_served_tree(const std::string& url, const OpenOptions& options);

}  // namespace weightfs
