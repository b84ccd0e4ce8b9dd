// The dimensions of a tensor in a repeated field of integers.
#pragma once

#include <optional>
#include <string>

#include "formats/protobuf/scanner.h"
#include "formats/tensor_list.h"

namespace weightfs::protobuf {

/// Adds the dimensions of a repeated field to a shape, which may be packed: `field` is one of its occurrences. Fails as
/// Scanner does; a dimension that is negative or beyond kMaxDimensions becomes a `problem`.
Result<void> read_dimensions(Scanner& scanner, const Field& field, Shape& shape, std::optional<std::string>& problem);

}  // namespace weightfs::protobuf
