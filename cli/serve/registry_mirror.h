// The registry that `weightfs serve --mirror oci=HOST` mirrors, as the origin of a mirror.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "cli/options/store_options.h"
#include "serve/registry/mirror.h"

namespace weightfs {

/// Null without --mirror oci=HOST. `log` receives a line about each failure of the origin.
std::shared_ptr<distribution::Mirror> open_registry_mirror(const ServedMirror& flags, const RegistryOptions& registries,
                                                           std::function<void(const std::string&)> log);

}  // namespace weightfs
