// Configurations of Hydra, NeMo and MONAI: the key `_target_` names a function or class that a program imports and
// calls.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "formats/code/list.h"

namespace weightfs::code {

/// Whether a file may have such keys, by its name.
bool may_have_targets(std::string_view path);

/// What reads a configuration. In that of NeMo, the key `target` is one, too; for MONAI, a name without a module is one
/// of its own classes.
enum class Instantiator : uint8_t { hydra, nemo, monai };

/// Adds the targets of a YAML or JSON text that are not of packages for models.
void add_targets(std::string_view text, std::string_view path, Instantiator instantiator, CodeList& out);

/// Adds one target, if it is not of such a package.
void add_target(std::string_view target, std::string_view path, Instantiator instantiator, CodeList& out);

/// A YAML text without the escapes of its quoted texts: \x5f is the underscore.
std::string without_escapes(std::string_view text);

}  // namespace weightfs::code
