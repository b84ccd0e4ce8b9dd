// The object store that `weightfs serve --mirror s3=URL` mirrors, as the origin of a mirror.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "cli/options/store_options.h"
#include "serve/s3/mirror.h"

namespace weightfs {

/// Null without --mirror s3=URL. `log` receives a line about each failure of the origin.
std::shared_ptr<objects::Mirror> open_object_mirror(const ServedMirror& flags, const RegistryOptions& registries,
                                                    std::function<void(const std::string&)> log);

}  // namespace weightfs
