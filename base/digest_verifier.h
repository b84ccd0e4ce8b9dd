// What has to be true of bytes before the last of them is served: the size and the digest that the recipe promises.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/blobs.h"

namespace weightfs {

/// Sees a recipe's bytes go by, one after the other.
class Proof {
 public:
  explicit Proof(const Recipe& recipe) : name_(recipe.name), size_(recipe.size), digest_(recipe.digest) {}

  /// Fails with corrupt when that is more than was promised.
  Result<void> add(std::span<const std::byte> bytes);

  /// After the last: the digest of them all. Fails with corrupt when they are too few, with mismatch when they are
  /// others than the digest names.
  Result<Digest> end();

  uint64_t seen() const { return seen_; }

 private:
  std::string name_;
  std::optional<uint64_t> size_;
  std::optional<Digest> digest_;
  uint64_t seen_ = 0;
  Sha256 hash_;
};

/// The recipe, whose streams end with a failure when they gave other bytes than it promises.
Recipe proving(Recipe recipe);

}  // namespace weightfs
