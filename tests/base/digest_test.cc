#include "base/digest.h"

#include <gtest/gtest.h>

#include "base/cancel.h"

namespace weightfs::digest_test {
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

TEST(Sha256, SourceIsHashedUntilTheThreadIsCancelled) {
  const CancelScope scope([] { return true; });
  const auto digest = sha256(*in_memory("abc"));
  ASSERT_FALSE(digest);
  EXPECT_EQ(digest.error().code, Code::resource);
}

TEST(Sha256, RestartedHashIsLikeANewOne) {
  Sha256 hash;
  for (int i = 0; i < 3; ++i) {
    hash.update(std::as_bytes(std::span("abc", 3)));
    EXPECT_EQ(hash.finish(), sha256("abc"));
    hash.restart();
  }
}

// git hash-object
TEST(GitBlobId, IsTheSha1OfTheSizeAndTheContent) {
  EXPECT_EQ(git_blob_id("Hello, World!").hex(), "b45ef6fec89518d314f546fd6c3025367b721684");
  EXPECT_EQ(git_blob_id("").hex(), "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391");
  EXPECT_EQ(sha1_of_hex("e69DE29bb2d1d6434b8b29ae775ad8c2e48c5391"), git_blob_id(""));
  EXPECT_EQ(sha1_of_hex("e69de29b"), std::nullopt);
}

}  // namespace
}  // namespace weightfs::digest_test
