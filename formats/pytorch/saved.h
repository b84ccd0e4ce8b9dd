// Files of torch.save in other files: chunks of checkpoints, members of archives.
#pragma once

#include <string>
#include <string_view>

#include "formats/format.h"
#include "formats/pytorch/contents.h"

namespace weightfs::archive {
struct Archive;
}

namespace weightfs::pytorch {

/// Fails with corrupt if PyTorch, which searches its sorted names whatever the case of their letters, finds any one of
/// several members of a zip.
Result<void> check_names(const archive::Archive& zip);

/// Adds the object of a zip of torch.save: its tensors, whose names begin with `prefix`, and other values, as metadata
/// under that key; an empty prefix is left out. `subject` is in front of warnings about the file. Fails with corrupt if
/// the zip or its pickle is invalid, and as reading and the budget do; then a part may have been added.
Result<void> add_saved(const Container& zip, const std::string& prefix, std::string_view subject, Contents& out);

}  // namespace weightfs::pytorch
