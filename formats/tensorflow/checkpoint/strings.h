// Tensors of strings in a checkpoint: the length of each as a varint, a checksum of the lengths, then the texts
// (WriteStringTensor in tensor_bundle.cc).
#pragma once

#include <bit>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/budget.h"
#include "base/later.h"
#include "base/source.h"

namespace weightfs::tensorflow {

using Strings = std::shared_ptr<const std::vector<std::string>>;

/// A tensor of strings as stored.
struct StoredStrings {
  Slice bytes;
  uint64_t count = 0;
  std::optional<uint32_t> crc32c = {};      ///< of the lengths as numbers, their checksum and the texts
  std::endian order = std::endian::little;  ///< of these numbers
};

/// The fewest bytes that so many strings take.
uint64_t least_bytes(uint64_t strings);

/// The strings of a tensor; bytes that are not UTF-8 become U+FFFD. They are charged to `budget` when they are read,
/// and stay charged. Reading fails with corrupt unless they take all bytes, and with mismatch if their checksum
/// differs.
Later<Strings> strings_of(const StoredStrings& stored, const BudgetPtr& budget);

/// The bytes of the only string of a scalar. Reading them is charged to `budget`. Fails as reading strings does.
Result<Slice> only_string(const StoredStrings& stored, Budget& budget);

}  // namespace weightfs::tensorflow
