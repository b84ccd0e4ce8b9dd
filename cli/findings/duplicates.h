// `weightfs info --duplicates`: equal tensors of one or more models.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cli/exit.h"
#include "fs/tree/forest.h"

namespace weightfs::info {

enum class Output { text, json };

/// Lists the equal tensors of all models in the sources, which are open in this order. Returns the status of the worst
/// failure.
Exit print_duplicates(const std::vector<std::string>& sources, const std::vector<std::unique_ptr<Forest>>& forests,
                      Output output);

}  // namespace weightfs::info
