// The terminal that something is printed to.
#pragma once

#include <cstddef>
#include <optional>

namespace weightfs {

/// How many columns the terminal behind a descriptor has; nothing when it is no terminal, or does not say.
std::optional<size_t> columns_of(int descriptor);

}  // namespace weightfs
