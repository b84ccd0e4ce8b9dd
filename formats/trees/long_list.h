// Lists of texts that are too long for metadata.json: documents of their own, which are rendered from the file.
#pragma once

#include <functional>
#include <string_view>

#include "formats/format.h"

namespace weightfs::trees {

using TakeText = std::function<Result<void>(std::string_view text)>;
/// Calls the function with each text of a list in the container. Fails as that and as reads do.
using EachText = std::function<Result<void>(const Source& container, const TakeText& take)>;

/// Adds the document `metadata/NAME.json`, once for each name, and returns what stands for it in the metadata.
Value long_list(Model& model, std::string_view name, const Container& container, EachText each);

}  // namespace weightfs::trees
