// SHA-256, the one digest that every format here names blobs by.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/source.h"

namespace weightfs {

/// A SHA-256 digest (FIPS 180-4).
struct Digest {
  std::array<std::byte, 32> bytes{};

  std::string hex() const;  ///< 64 lower-case hex digits
  friend bool operator==(const Digest&, const Digest&) = default;
};

/// The digest of `text`.
Digest sha256(std::string_view text);

/// The digest of everything in `source`, read in order with bounded memory.
Result<Digest> sha256(const Source& source);

}  // namespace weightfs
