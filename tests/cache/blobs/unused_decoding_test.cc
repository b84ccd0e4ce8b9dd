// Decoding ends when no file has the blob open and no reader waits for it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "base/cancel.h"
#include "tests/cache/store_directory.h"

namespace weightfs::test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class UnusedDecoding : public StoreDirectory, public testing::WithParamInterface<std::string> {
 protected:
  static constexpr size_t kHuge = 40'000'000;

  BlobsPtr any_store() { return GetParam() == "Directory" ? store() : temporary_blobs(100 << 20); }

  // A recipe whose stream gives one half at once, and then a byte a millisecond.
  Recipe endless(const std::string& key) {
    Recipe recipe;
    recipe.name = "member";
    recipe.size = kHuge;
    recipe.key = key;
    recipe.start = [this]() -> Result<StreamPtr> { return std::make_unique<Endless>(this); };
    return recipe;
  }

  class Endless final : public Stream {
   public:
    explicit Endless(UnusedDecoding* test) : test_(test) { ++test->streams; }
    ~Endless() override { --test_->streams; }
    Endless(const Endless&) = delete;
    Endless& operator=(const Endless&) = delete;
    Result<size_t> next(std::span<std::byte> out) override {
      const size_t count = std::min<size_t>(out.size(), 100'000);
      if (test_->given >= kHuge / 2) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        return size_t{1};
      }
      test_->given += count;
      return count;
    }

   private:
    UnusedDecoding* test_;
  };

  void wait_until_no_stream() const {
    while (streams > 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }

  std::atomic<int> streams = 0;
  std::atomic<size_t> given = 0;  // by all streams
};

INSTANTIATE_TEST_SUITE_P(Stores, UnusedDecoding, testing::Values("Directory", "Temporary"),
                         [](const auto& instance) { return instance.param; });

std::string byte_at(const Source& source, uint64_t offset) { return read(source, offset, 1); }

// semantics 9.8
TEST_P(UnusedDecoding, EndsWithNothingLeftWhenTheLastFileIsClosed) {
  const BlobsPtr blobs = any_store();
  const auto blob = blobs->blob(endless("zip"));
  auto open = blob->hold();
  byte_at(*blob, 40'000);
  EXPECT_EQ(streams, 1);
  open = nullptr;
  wait_until_no_stream();
  EXPECT_LT(given, kHuge);
  while (!makings().empty()) std::this_thread::yield();
  EXPECT_THAT(this->blobs(), IsEmpty());
}

TEST_P(UnusedDecoding, EndsWhenAReaderThatHeldNothingComesNoMore) {
  const BlobsPtr blobs = any_store();
  const auto blob = blobs->blob(endless("zip"));
  byte_at(*blob, 40'000);
  wait_until_no_stream();
  EXPECT_LT(given, kHuge);
}

// More of it is decoded after the other reader has gone, by the same stream.
TEST_P(UnusedDecoding, GoesOnForTheOtherOfTwoReaders) {
  member = making(some_bytes(3'000'000));
  Gate gate;
  member->before = [&](size_t at) {
    if (at >= 1'000'000) gate.pass();
  };
  const BlobsPtr blobs = any_store();
  const auto one = blobs->blob(recipe_of(member, "zip"));
  const auto other = blobs->blob(recipe_of(member, "zip"));
  auto first = one->hold();
  const auto second = other->hold();
  EXPECT_EQ(read(*one, 0, 40'000), told(member->bytes.substr(0, 40'000)));
  first = nullptr;
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));  // longer than decoding goes on without readers
  gate.open();
  EXPECT_EQ(read(*other), told(member->bytes));
  EXPECT_EQ(member->starts, 1);
}

TEST_P(UnusedDecoding, ASlowReaderLosesNothing) {
  member = making(some_bytes(3'000'000));
  Gate gate;
  member->before = [&](size_t at) {
    if (at >= 1'000'000) gate.pass();
  };
  const BlobsPtr blobs = any_store();
  const auto blob = blobs->blob(recipe_of(member, "zip"));
  const auto open = blob->hold();
  EXPECT_EQ(read(*blob, 0, 40'000), told(member->bytes.substr(0, 40'000)));
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  gate.open();
  EXPECT_EQ(read(*blob), told(member->bytes));
  EXPECT_EQ(member->starts, 1);
}

class Copied final : public Stream {
 public:
  explicit Copied(SourcePtr from) : from_(std::move(from)) {}
  Result<size_t> next(std::span<std::byte> out) override {
    const size_t got = TRY(from_->read(at_, out.first(std::min<size_t>(out.size(), 50'000))));
    at_ += got;
    return got;
  }

 private:
  SourcePtr from_;
  uint64_t at_ = 0;
};

// A member of an archive that is a member: both are decoded for one reader.
TEST_P(UnusedDecoding, EndsWithThatWhichItIsMadeFrom) {
  const BlobsPtr blobs = any_store();
  const auto inner = blobs->blob(endless("inner"));
  Recipe recipe;
  recipe.name = "outer";
  recipe.size = kHuge;
  recipe.key = "outer";
  recipe.start = [inner]() -> Result<StreamPtr> { return std::make_unique<Copied>(inner); };
  const auto outer = blobs->blob(std::move(recipe));
  auto open = outer->hold();
  byte_at(*outer, 40'000);
  EXPECT_EQ(streams, 1);
  open = nullptr;
  wait_until_no_stream();
  EXPECT_LT(given, kHuge);
  while (!makings().empty()) std::this_thread::yield();
}

// As long as the outer one is decoded, the inner one is not begun again, however seldom it is read.
TEST_P(UnusedDecoding, WhatIsMadeFromAnotherHoldsThat) {
  member = making(some_bytes(3'000'000));
  const BlobsPtr blobs = any_store();
  const auto inner = blobs->blob(recipe_of(member, "inner"));
  Gate gate;
  member->before = [&](size_t at) {
    if (at >= 2'000'000) gate.pass();
  };
  Recipe recipe;
  recipe.name = "outer";
  recipe.size = 3'000'000;
  recipe.key = "outer";
  class Seldom final : public Stream {
   public:
    Seldom(SourcePtr from, Gate& gate) : copied_(std::move(from)), gate_(gate) {}
    Result<size_t> next(std::span<std::byte> out) override {
      const size_t got = TRY(copied_.next(out));
      if ((at_ += got) == 50'000) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1500));
        gate_.open();
      }
      return got;
    }

   private:
    Copied copied_;
    Gate& gate_;
    size_t at_ = 0;
  };
  recipe.start = [inner, &gate]() -> Result<StreamPtr> { return std::make_unique<Seldom>(inner, gate); };
  const auto outer = blobs->blob(std::move(recipe));
  const auto open = outer->hold();
  EXPECT_EQ(read(*outer), told(member->bytes));
  EXPECT_EQ(member->starts, 1);
}

// The stream gives no byte, so its reader waits until it is killed; then the stream asks for input, and gets none.
TEST_P(UnusedDecoding, AKilledReaderThatWaitsForNothingIsLetGoAndTheStreamEnds) {
  std::atomic<bool> killed = false;
  std::atomic<uint64_t> asked = 0;
  class Silent final : public Stream {
   public:
    Silent(SourcePtr input, std::atomic<uint64_t>& asked) : input_(std::move(input)), asked_(asked) {}
    Result<size_t> next(std::span<std::byte>) override {
      for (;;) {
        std::byte one{};
        TRY(input_->read(0, std::span(&one, 1)));
        ++asked_;
      }
    }

   private:
    SourcePtr input_;
    std::atomic<uint64_t>& asked_;
  };
  const SourcePtr input = open_file(temporary.write("input", "deflated")).value();
  Recipe recipe = recipe_of(member, "zip");
  recipe.start = [&]() -> Result<StreamPtr> {
    ++streams;
    return std::make_unique<Silent>(input, asked);
  };
  const BlobsPtr blobs = any_store();
  const auto blob = blobs->blob(recipe);
  std::thread reader([&] {
    const CancelScope scope([&] { return killed.load(); });
    EXPECT_THAT(read(*blob), testing::HasSubstr("error: cancelled"));
  });
  while (asked == 0) std::this_thread::yield();
  killed = true;
  reader.join();
  while (recipe.start != nullptr && input.use_count() > 1) {  // the stream has it
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  while (!makings().empty()) std::this_thread::yield();
  EXPECT_THAT(this->blobs(), IsEmpty());
}

}  // namespace
}  // namespace weightfs::test
