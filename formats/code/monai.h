// Configurations of MONAI bundles: texts that begin with `$` are expressions of Python, which monai.bundle evaluates.
#pragma once

#include <string_view>

#include "base/values/value.h"
#include "formats/code/list.h"

namespace weightfs::code {

/// Whether a file is a configuration of a bundle, by its path: those in `configs/`, and those that MONAI adds to a
/// model of TorchScript, which are in `extra/`.
bool is_bundle_configuration(std::string_view path);

/// Adds the expressions and targets of a configuration in JSON. `path`: of the file.
void add_bundle(const Value& json, std::string_view path, CodeList& out);

/// Adds the expressions of a configuration in YAML.
void add_expressions(std::string_view yaml, std::string_view path, CodeList& out);

}  // namespace weightfs::code
