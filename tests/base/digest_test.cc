#include "base/digest.h"

#include <gtest/gtest.h>

namespace weightfs {
namespace {

// FIPS 180-4's own examples.
TEST(Sha256, MatchesTestVectors) {
  EXPECT_EQ(sha256("abc").hex(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256("").hex(), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

TEST(Sha256, SourceIsHashedLikeItsBytes) {
  const std::string bytes(1'000'000, 'a');
  EXPECT_EQ(sha256(*in_memory(bytes)).value().hex(),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, RestartedHashIsLikeANewOne) {
  Sha256 hash;
  for (int i = 0; i < 3; ++i) {
    hash.update(std::as_bytes(std::span("abc", 3)));
    EXPECT_EQ(hash.finish(), sha256("abc"));
    hash.restart();
  }
}

}  // namespace
}  // namespace weightfs
