// The Hub that `weightfs serve --mirror hf=URL` mirrors, as the origin of a mirror.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "cli/options/store_options.h"
#include "serve/hub/mirror.h"

namespace weightfs {

/// Null without --mirror hf=URL. `log` receives a line about each failure of the origin. Fails as
/// huggingface::hub_of().
Result<std::shared_ptr<hub::Mirror>> open_hub_mirror(const ServedMirror& flags, const RegistryOptions& registries,
                                                     std::function<void(const std::string&)> log);

}  // namespace weightfs
