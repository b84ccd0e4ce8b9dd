// Properties of a terminal.
#pragma once

#include <cstddef>
#include <optional>

namespace weightfs {

/// The number of columns of the terminal `descriptor`; nothing if it is not a terminal or its size is unknown.
std::optional<size_t> columns_of(int descriptor);

}  // namespace weightfs
