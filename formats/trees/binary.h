// XGBoost's binary form, which version 3.1 has removed: the structures of LearnerImpl::LoadModel, one after another.
#pragma once

#include <string_view>

#include "formats/format.h"

namespace weightfs::trees {

/// Whether a file that begins with `head` is in the binary form: it has the mark `binf`, which is missing in older
/// files, or known names of an objective and of a booster at their places.
bool is_binary(std::string_view head);

/// Reads such a file. Nodes and their statistics are ranges of the file; their fields are gathered.
Result<Model> read_binary(const Container& container);

}  // namespace weightfs::trees
