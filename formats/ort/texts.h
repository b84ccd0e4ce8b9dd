// The elements of a tensor of texts: a list of texts in the FlatBuffer.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "formats/flatbuffer/flatbuffer.h"

namespace weightfs::ort {

/// A list of texts: the position of its first element, which is an offset, and its size.
struct Texts {
  uint64_t position = 0;
  uint64_t count = 0;
};

/// The size of string_lines(). Reads the length of each text. Fails with corrupt if one is not inside the buffer.
Result<uint64_t> size_of_lines(flatbuffer::Buffer& buffer, const Texts& texts);

/// The texts, each followed by a newline: `size` bytes, which are computed when they are read. `budget` is charged for
/// the texts only while they are joined.
SourcePtr string_lines(const SourcePtr& file, const Texts& texts, uint64_t size, const BudgetPtr& budget);

using Strings = std::shared_ptr<const std::vector<std::string>>;

/// The texts as UTF-8, read on first use. They stay charged to `budget`.
Later<Strings> strings_of(const SourcePtr& file, const Texts& texts, const BudgetPtr& budget);

}  // namespace weightfs::ort
