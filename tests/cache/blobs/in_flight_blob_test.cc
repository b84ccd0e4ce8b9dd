// How many blobs are made at once, and what ends a making before its time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <new>
#include <thread>

#include "cache/blob_store.h"
#include "tests/cache/store_directory.h"

namespace weightfs::test {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

// Each test runs over both kinds of store.
class FillingsTest : public StoreDirectory, public testing::WithParamInterface<std::string> {
 protected:
  BlobsPtr any_store() { return GetParam() == "Directory" ? store() : temporary_blobs(100 << 20); }
};

INSTANTIATE_TEST_SUITE_P(Stores, FillingsTest, testing::Values("Directory", "Temporary"),
                         [](const auto& instance) { return instance.param; });

// Members whose streams give 100,000 bytes and then wait.
struct Stuck {
  explicit Stuck(uint32_t seed) : making(test::making(some_bytes(kMember, seed))) {
    making->before = [this](size_t given) {
      if (given >= 100'000) gate.pass();
    };
  }
  ~Stuck() { gate.open(); }
  Stuck(const Stuck&) = delete;
  Stuck& operator=(const Stuck&) = delete;

  std::string head() const { return told(making->bytes.substr(0, 50'000)); }

  Gate gate;
  MakingPtr making;
};

TEST_P(FillingsTest, TheFifthEndsTheOneThatNobodyAskedForLongest) {
  std::vector<std::unique_ptr<Stuck>> members;
  std::vector<SourcePtr> sources;
  const BlobsPtr blobs = any_store();
  for (uint32_t i = 0; i < 5; ++i) {
    members.push_back(std::make_unique<Stuck>(i));
    sources.push_back(blobs->blob(recipe_of(members[i]->making, str("zip ", i))));
  }
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(read(*sources[i], 0, 50'000), members[i]->head());
  EXPECT_EQ(read(*sources[0], 0, 50'000), members[0]->head());
  EXPECT_EQ(read(*sources[4], 0, 50'000), members[4]->head());
  for (const auto& stuck : members) stuck->gate.open();
  // The one that was ended comes last: it would end another.
  for (const size_t i : {0U, 2U, 3U, 4U, 1U}) EXPECT_EQ(read(*sources[i]), told(members[i]->making->bytes));
  std::vector<int> starts;
  for (const auto& stuck : members) starts.push_back(stuck->making->starts);
  EXPECT_THAT(starts, testing::ElementsAre(1, 2, 1, 1, 1));
}

// How many streams of such members are between their first byte and their end at the same time.
struct Load {
  std::atomic<int> now = 0;
  std::atomic<int> most = 0;

  MakingPtr making(uint32_t seed) {
    const MakingPtr made = test::making(some_bytes(kMember, seed));
    made->piece = 1000;
    made->before = [this](size_t given) {
      if (given == kMember) --now;
      if (given != 0) return;
      const int here = ++now;
      for (int seen = most; here > seen && !most.compare_exchange_weak(seen, here);) {
      }
    };
    return made;
  }
};

TEST_P(FillingsTest, NoMoreThanFourDecodeAtOnceHoweverManyAreWaitedFor) {
  Load load;
  std::vector<std::thread> readers;
  const BlobsPtr blobs = any_store();
  for (uint32_t i = 0; i < 20; ++i)
    readers.emplace_back([&blobs, &load, i] {
      const MakingPtr made = load.making(i);
      EXPECT_EQ(read(*blobs->blob(recipe_of(made, str("zip ", i)))), told(made->bytes));
      EXPECT_EQ(made->starts, 1);
    });
  for (auto& reader : readers) reader.join();
  EXPECT_LE(load.most, 4);
  EXPECT_GT(load.most, 1);
}

// The bytes of another blob.
class Copy final : public Stream {
 public:
  explicit Copy(SourcePtr from) : from_(std::move(from)) {}
  Result<size_t> next(std::span<std::byte> out) override {
    const size_t got = TRY(from_->read(at_, out));
    at_ += got;
    return got;
  }

 private:
  SourcePtr from_;
  uint64_t at_ = 0;
};

Recipe copy_of(const SourcePtr& from, std::string key) {
  Recipe recipe;
  recipe.name = "copy";
  recipe.size = from->size();
  recipe.key = std::move(key);
  recipe.start = [from]() -> Result<StreamPtr> { return std::make_unique<Copy>(from); };
  return recipe;
}

// Each reader's blob is made from another, and that from a third: more wait for one another than may decode.
TEST_P(FillingsTest, ThoseThatAreMadeFromOthersDoNotKeepThemFromBeingMade) {
  Load load;
  std::vector<std::thread> readers;
  const BlobsPtr blobs = any_store();
  for (uint32_t i = 0; i < 12; ++i)
    readers.emplace_back([&blobs, &load, i] {
      const MakingPtr made = load.making(i);
      SourcePtr blob = blobs->blob(recipe_of(made, str("zip ", i)));
      for (int depth = 1; depth < 4; ++depth) blob = blobs->blob(copy_of(blob, str("zip ", i, " depth ", depth)));
      EXPECT_EQ(read(*blob), told(made->bytes));
      EXPECT_EQ(made->starts, 1);
    });
  for (auto& reader : readers) reader.join();
  EXPECT_LE(load.most, 4);
}

// A container in a container in a container: each is made from the one before, of the same store.
// As where four members are made from one thing that a fifth reader is opening.
TEST_P(FillingsTest, WhoHoldsALockThatTheOthersWaitForIsServed) {
  std::mutex lock;
  Gate held;
  Gate four;
  std::atomic<int> waiting = 0;
  const BlobsPtr blobs = any_store();
  std::thread holder([&] {
    const std::scoped_lock mine(lock);
    held.open();
    four.pass();
    EXPECT_EQ(read(*blobs->blob(recipe_of(member, "zip"))), told(bytes));
  });
  held.pass();
  std::vector<std::thread> readers;
  for (uint32_t i = 0; i < 4; ++i)
    readers.emplace_back([&, i] {
      const MakingPtr made = making(some_bytes(kMember, i + 2));
      made->before = [&](size_t given) {
        if (given != 100'000) return;
        if (++waiting == 4) four.open();
        const std::scoped_lock theirs(lock);
      };
      EXPECT_EQ(read(*blobs->blob(recipe_of(made, str("zip ", i)))), told(made->bytes));
    });
  for (auto& reader : readers) reader.join();
  holder.join();
}

TEST_P(FillingsTest, ABlobMayBeMadeFromOthersOfTheStore) {
  const BlobsPtr blobs = any_store();
  SourcePtr inner = blobs->blob(recipe_of(member, "zip 0"));
  for (int depth = 1; depth < 8; ++depth) inner = blobs->blob(copy_of(inner, str("zip ", depth)));
  EXPECT_EQ(read(*inner), told(bytes));
  EXPECT_EQ(member->starts, 1);
}

TEST_P(FillingsTest, AStoreThatGoesEndsWhatItMakes) {
  // Two million pieces would take long; after the first the store goes.
  member->bytes = some_bytes(2'000'000);
  member->piece = 1;
  std::atomic<size_t> given_in_all = 0;
  member->before = [&](size_t given) { given_in_all = given; };
  BlobsPtr blobs = any_store();
  const auto blob = blobs->blob(recipe_of(member, "zip 1"));
  EXPECT_EQ(read(*blob, 0, 5000), told(member->bytes.substr(0, 5000)));
  blobs = nullptr;
  const size_t given = given_in_all;
  EXPECT_LT(given, 2'000'000U);
  EXPECT_THAT(makings(), IsEmpty());
  EXPECT_THAT(this->blobs(), IsEmpty());
  EXPECT_EQ(given_in_all, given);  // and no thread goes on
  // A source that outlives its store makes its bytes for itself.
  EXPECT_EQ(read(*blob, 10, 5000), told(member->bytes.substr(10, 5000)));
  EXPECT_THAT(log, IsEmpty());
}

TEST_P(FillingsTest, WhoWaitsWhenTheStoreGoesIsServedAllTheSame) {
  Gate waiting;
  Gate gone;
  member->before = [&](size_t given) {
    if (member->starts > 1 || given < 100'000) return;
    waiting.open();
    gone.pass();
  };
  BlobsPtr blobs = any_store();
  const auto blob = blobs->blob(recipe_of(member, "zip 1"));
  std::thread reader([&] { EXPECT_EQ(read(*blob), told(bytes)); });
  waiting.pass();
  std::thread closer([&] { blobs = nullptr; });
  gone.open();
  closer.join();
  reader.join();
}

// What a blob is made from may be the last to own the store.
TEST_P(FillingsTest, AStoreMayEndInOneOfItsOwnMakings) {
  Gate gate;
  const auto ended = std::make_shared<Gate>();
  BlobsPtr blobs = any_store();
  {
    Recipe recipe = recipe_of(member, "zip 1");
    member->before = [&](size_t given) {
      if (given == 100'000) gate.pass();
    };
    struct Owner {
      BlobsPtr blobs;
      std::shared_ptr<Gate> ended;
      Owner(BlobsPtr b, std::shared_ptr<Gate> e) : blobs(std::move(b)), ended(std::move(e)) {}
      Owner(const Owner&) = delete;
      Owner& operator=(const Owner&) = delete;
      ~Owner() {
        blobs = nullptr;
        ended->open();
      }
    };
    recipe.start = [owner = std::make_shared<Owner>(blobs, ended), start = recipe.start] { return start(); };
    const auto blob = blobs->blob(std::move(recipe));
    EXPECT_EQ(read(*blob, 0, 50'000), told(bytes.substr(0, 50'000)));
  }
  blobs = nullptr;
  gate.open();
  ended->pass();
}

TEST_P(FillingsTest, AnExceptionOfALibraryIsAFailure) {
  member->before = [](size_t given) {
    if (given > 0) throw std::bad_alloc();
  };
  const BlobsPtr blobs = any_store();
  const auto blob = blobs->blob(recipe_of(member, "zip 1"));
  EXPECT_EQ(read(*blob), "error: out of memory");
  member->before = nullptr;
  EXPECT_EQ(read(*blob), told(bytes));
}

// What a stream is started with, in a process that runs out of memory when it is copied for the first time.
struct Copied {
  std::shared_ptr<std::atomic<int>> failures;
  MakingPtr making;

  Copied(std::shared_ptr<std::atomic<int>> f, MakingPtr m) : failures(std::move(f)), making(std::move(m)) {}
  Copied(Copied&&) = default;
  Copied(const Copied& other) : failures(other.failures), making(other.making) {
    if (*failures > 0) {
      --*failures;
      throw std::bad_alloc();
    }
  }
  Copied& operator=(const Copied&) = delete;
  Copied& operator=(Copied&&) = delete;
  ~Copied() = default;
  Result<StreamPtr> operator()() const { return std::make_unique<MakingStream>(making); }
};

TEST_P(FillingsTest, WhatCannotBeBegunForWantOfMemoryIsReadWithoutBeingKept) {
  const auto failures = std::make_shared<std::atomic<int>>(0);
  const BlobsPtr blobs = any_store();
  Recipe recipe = recipe_of(member, "zip 1");
  recipe.start = Copied(failures, member);
  const auto blob = blobs->blob(std::move(recipe));
  *failures = 1;
  EXPECT_EQ(read(*blob), told(bytes));
  EXPECT_EQ(*failures, 0);
  EXPECT_EQ(read(*blob), told(bytes));
}

}  // namespace
}  // namespace weightfs::test
