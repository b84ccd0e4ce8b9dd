// Configurations of Hydra and NeMo: the key `_target_` names a function or class that a program imports and calls.
#pragma once

#include <string_view>

#include "formats/code/list.h"

namespace weightfs::code {

/// Whether a file may have such keys, by its name.
bool may_have_targets(std::string_view path);

/// Adds the targets of a YAML or JSON text that are not of packages for models. In NeMo's own configuration, `target`
/// is one, too.
void add_targets(std::string_view text, std::string_view path, bool is_nemo, CodeList& out);

}  // namespace weightfs::code
