// Blobs in a temporary file, for --no-cache.
#include "cache/store/temp_file_backend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <thread>

#include "cache/blob_store.h"
#include "tests/cache/store_directory.h"

namespace weightfs::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class TemporaryBlobsTest : public StoreDirectory {
 protected:
  TemporaryBlobsTest() { ::setenv("TMPDIR", temporary.path("").c_str(), 1); }
  ~TemporaryBlobsTest() override { ::unsetenv("TMPDIR"); }

  BlobsPtr blobs_of(std::optional<uint64_t> quota) {
    return temporary_blobs(quota, [this](const std::string& line) { log.push_back(line); });
  }
};

TEST_F(TemporaryBlobsTest, MakeEachOnceAndShowNoFile) {
  const BlobsPtr blobs = blobs_of(100 << 20);
  std::vector<MakingPtr> makings;
  std::vector<SourcePtr> sources;
  for (uint32_t i = 0; i < 20; ++i) {
    makings.push_back(making(some_bytes(70'000 + i * 1001, i)));
    sources.push_back(blobs->blob(recipe_of(makings.back(), str("zip ", i))));
  }
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (size_t i = 0; i < 40; ++i) {
        const size_t one = (i + 5 * t) % 20;
        EXPECT_EQ(read(*sources[one]), told(makings[one]->bytes));
      }
    });
  for (auto& thread : threads) thread.join();
  for (const auto& made : makings) EXPECT_EQ(made->starts, 1);
  EXPECT_THAT(files_in(temporary.path("")), IsEmpty());
}

TEST_F(TemporaryBlobsTest, ServeBytesWhileLaterOnesAreMade) {
  Gate middle;
  member->before = [&](size_t given) {
    if (given == 200'000) middle.pass();
  };
  const BlobsPtr blobs = blobs_of(100 << 20);
  const auto blob = blobs->blob(recipe_of(member, "zip 1"));
  EXPECT_EQ(read(*blob, 0, 200'000), told(bytes.substr(0, 200'000)));
  middle.open();
  EXPECT_EQ(read(*blob), told(bytes));
}

TEST_F(TemporaryBlobsTest, WrongBytesAreNeverServedToTheEnd) {
  Recipe wrong = recipe_of(member, "zip 1");
  wrong.digest = sha256("others");
  const BlobsPtr blobs = blobs_of(100 << 20);
  const auto blob = blobs->blob(wrong);
  EXPECT_THAT(read(*blob), HasSubstr("not " + sha256("others").hex()));
  EXPECT_THAT(read(*blob, 0, 1), HasSubstr("not " + sha256("others").hex()));
}

TEST_F(TemporaryBlobsTest, HoldNoMoreThanTheirQuota) {
  const BlobsPtr blobs = blobs_of(700'000);
  for (uint32_t i = 0; i < 4; ++i) {
    const MakingPtr made = making(some_bytes(kMember, i));
    const auto blob = blobs->blob(recipe_of(made, str("zip ", i)));
    for (int again = 0; again < 2; ++again) EXPECT_EQ(read(*blob), told(made->bytes));
    EXPECT_EQ(made->starts, i < 2 ? 1 : 2);
  }
  EXPECT_THAT(log,
              ElementsAre("not kept, made anew by each reader: the temporary file may hold no more than 683.6 KiB"));
}

TEST_F(TemporaryBlobsTest, WhatFailedTakesNoRoom) {
  const BlobsPtr blobs = blobs_of(700'000);
  member->error = Error{Code::corrupt, "wrong checksum"};
  for (const std::string key : {"zip 1", "zip 2", "zip 3", "zip 4", "zip 5"})
    EXPECT_EQ(read(*blobs->blob(recipe_of(member, key))), "error: wrong checksum");
  member->error = std::nullopt;
  EXPECT_EQ(read(*blobs->blob(recipe_of(member, "zip 6"))), told(bytes));
  EXPECT_THAT(log, IsEmpty());
}

// What was made in vain, as far as somebody reads it.
class TemporaryShelfTest : public TemporaryBlobsTest {
 protected:
  static constexpr uint64_t kQuota = 400'000;  // room for one
  std::unique_ptr<Draft> draft(const std::string& name, const std::string& text) {
    auto begun = shelf->begin(Name{name, "", {}}, text.size(), stop);
    EXPECT_TRUE(begun && begun->draft->reserve(text.size(), Others::make_way));
    EXPECT_TRUE(begun->draft->write(0, std::as_bytes(std::span(text))));
    return std::move(begun->draft);
  }
  static std::string all_of(const Range& range) {
    std::string out(range.size(), '?');
    const auto done = range.read(0, std::as_writable_bytes(std::span(out)));
    return done ? told(out) : "error: " + done.error().message;
  }
  std::atomic<bool> stop = false;
  std::shared_ptr<Temporary> shelf = std::make_shared<Temporary>(kQuota);
};

TEST_F(TemporaryShelfTest, KeepsBytesForWhoReadsThemWhenTheirDraftGoes) {
  auto begun = draft("a", bytes);
  RangePtr range = begun->range();
  begun = nullptr;
  EXPECT_EQ(all_of(*range), told(bytes));
  EXPECT_FALSE(shelf->begin(Name{"b", "", {}}, kMember, stop)
                   ->draft->reserve(kMember, Others::make_way));  // they take their room
  range = nullptr;
  EXPECT_TRUE(shelf->begin(Name{"b", "", {}}, kMember, stop)->draft->reserve(kMember, Others::make_way));
}

TEST_F(TemporaryShelfTest, KeepsBytesForWhoReadsThemWhenTheyAreThereTwice) {
  const std::string half = bytes.substr(0, kMember / 2);
  auto first = draft("a", half);
  auto second = draft("b", half);
  const RangePtr range = second->range();
  ASSERT_TRUE(first->publish(sha256(half), half.size(), {}));
  const auto kept = second->publish(sha256(half), half.size(), {});
  second = nullptr;
  EXPECT_EQ(all_of(*range), told(half));
  EXPECT_EQ(all_of(*kept->range), told(half));
}

// Its pieces lie between those of others.
TEST_F(TemporaryBlobsTest, HoldABlobOfUnknownSizeInPieces) {
  const MakingPtr large = making(some_bytes(5'000'000));
  const BlobsPtr blobs = blobs_of(100 << 20);
  large->before = [&](size_t given) {
    if (given == 0 || given % 1'000'000 != 0 || large->starts < 2) return;
    const MakingPtr between = making(some_bytes(70'000, static_cast<uint32_t>(given)));
    EXPECT_EQ(read(*blobs->blob(recipe_of(between, str("zip ", given)))), told(between->bytes));
  };
  Recipe recipe = recipe_of(large, "tar.gz 1");
  recipe.size = std::nullopt;
  const auto made = blobs->made(recipe);
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ((*made)->size(), 5'000'000U);
  EXPECT_EQ(read(**made), told(large->bytes));
  EXPECT_EQ(read(**made, 1'048'000, 3'000'000), told(large->bytes.substr(1'048'000, 3'000'000)));
  EXPECT_EQ(large->starts, 2);
}

TEST_F(TemporaryBlobsTest, WhatFindsNoPlaceForAFileIsMadeAnew) {
  ::setenv("TMPDIR", temporary.path("missing").c_str(), 1);
  const BlobsPtr blobs = blobs_of(100 << 20);
  EXPECT_EQ(read(*blobs->blob(recipe_of(member, "zip 1"))), told(bytes));  // in /var/tmp or /tmp
}

}  // namespace
}  // namespace weightfs::test
