// Limits of concurrent producers, and their cancellation.
#include "cache/decoding/in_flight_blob.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <new>
#include <thread>

#include "base/cancel.h"
#include "cache/blob_store.h"
#include "tests/cache/store_fixture.h"

namespace weightfs::test::in_flight_blob_test {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

// Each test runs with both backends.
class InFlightBlobTest : public StoreDirectory, public testing::WithParamInterface<std::string> {
 protected:
  BlobsPtr any_store(size_t max_decodings = 4) {
    StoreOptions options{GetParam() == "Directory" ? directory : "", 100 << 20};
    options.log = [this](const std::string& line) {
      const std::scoped_lock lock(mutex);
      log.push_back(line);
    };
    options.max_decodings = max_decodings;
    return blob_store(std::move(options));
  }
};

// Each buffer wakes another thread.
TEST(GatherTest, SmallPiecesOfAStreamFillABuffer) {
  const TestProducerPtr producer = test_producer("0123456789abcdefghij");
  producer->piece = 3;
  int calls = 0;
  producer->before = [&](size_t) { ++calls; };
  TestStream stream(producer);
  std::string out(16, '?');
  const auto more = [&] { return blobs::gather(stream, std::as_writable_bytes(std::span(out)), 7).value(); };
  EXPECT_EQ(more(), 9U);
  EXPECT_EQ(out.substr(0, 9), "012345678");
  EXPECT_EQ(calls, 3);
  EXPECT_EQ(more(), 9U);
  EXPECT_EQ(more(), 2U);  // the end
  EXPECT_EQ(out.substr(0, 2), "ij");
  EXPECT_EQ(calls, 8);
  const CancelScope killed([] { return true; });
  EXPECT_FALSE(blobs::gather(stream, std::as_writable_bytes(std::span(out)), 7));
}

INSTANTIATE_TEST_SUITE_P(Stores, InFlightBlobTest, testing::Values("Directory", "Temporary"),
                         [](const auto& instance) { return instance.param; });

// Members whose streams give 100,000 bytes and then wait.
struct Stuck {
  explicit Stuck(uint32_t seed) : test_producer(test::test_producer(some_bytes(kMember, seed))) {
    test_producer->before = [this](size_t given) {
      if (given >= 100'000) gate.wait();
    };
  }
  ~Stuck() { gate.open(); }
  Stuck(const Stuck&) = delete;
  Stuck& operator=(const Stuck&) = delete;

  std::string head() const { return describe(test_producer->bytes.substr(0, 50'000)); }

  Gate gate;
  TestProducerPtr test_producer;
};

TEST_P(InFlightBlobTest, FifthDecodingCancelsLeastRecentlyReadOne) {
  std::vector<std::unique_ptr<Stuck>> members;
  std::vector<SourcePtr> sources;
  const BlobsPtr blobs = any_store();
  for (uint32_t i = 0; i < 5; ++i) {
    members.push_back(std::make_unique<Stuck>(i));
    sources.push_back(blobs->blob(producer_of(members[i]->test_producer, fmt::format("zip {}", i))));
  }
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(read(*sources[i], 0, 50'000), members[i]->head());
  EXPECT_EQ(read(*sources[0], 0, 50'000), members[0]->head());
  EXPECT_EQ(read(*sources[4], 0, 50'000), members[4]->head());
  for (const auto& stuck : members) stuck->gate.open();
  // The cancelled one comes last, because it cancels another.
  for (const size_t i : {0U, 2U, 3U, 4U, 1U}) EXPECT_EQ(read(*sources[i]), describe(members[i]->test_producer->bytes));
  std::vector<int> starts;
  for (const auto& stuck : members) starts.push_back(stuck->test_producer->starts);
  EXPECT_THAT(starts, testing::ElementsAre(1, 2, 1, 1, 1));
}

// The maximum number of concurrently active streams.
struct Load {
  std::atomic<int> now = 0;
  std::atomic<int> most = 0;

  TestProducerPtr test_producer(uint32_t seed) {
    const TestProducerPtr made = test::test_producer(some_bytes(kMember, seed));
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

TEST_P(InFlightBlobTest, AtMostFourDecodeConcurrently) {
  Load load;
  std::vector<std::thread> readers;
  const BlobsPtr blobs = any_store();
  for (uint32_t i = 0; i < 20; ++i)
    readers.emplace_back([&blobs, &load, i] {
      const TestProducerPtr made = load.test_producer(i);
      EXPECT_EQ(read(*blobs->blob(producer_of(made, fmt::format("zip {}", i)))), describe(made->bytes));
      EXPECT_EQ(made->starts, 1);
    });
  for (auto& reader : readers) reader.join();
  EXPECT_LE(load.most, 4);
  EXPECT_GT(load.most, 1);
}

BlobProducer copy_of(const SourcePtr& from, std::string key, int depth) {
  BlobProducer producer;
  producer.depth = depth;
  producer.name = "copy";
  producer.size = from->size();
  producer.key = std::move(key);
  producer.start = [from]() -> Result<StreamPtr> { return stream_of(from); };
  return producer;
}

// Each reader's blob is produced from a second, and that from a third: more wait for each other than may decode.
TEST_P(InFlightBlobTest, NestedBlobsDoNotBlockTheirSources) {
  Load load;
  std::vector<std::thread> readers;
  const BlobsPtr blobs = any_store();
  for (uint32_t i = 0; i < 12; ++i)
    readers.emplace_back([&blobs, &load, i] {
      const TestProducerPtr made = load.test_producer(i);
      SourcePtr blob = blobs->blob(producer_of(made, fmt::format("zip {}", i)));
      for (int depth = 1; depth < 4; ++depth)
        blob = blobs->blob(copy_of(blob, fmt::format("zip {} depth {}", i, depth), depth));
      EXPECT_EQ(read(*blob), describe(made->bytes));
      EXPECT_EQ(made->starts, 1);
    });
  for (auto& reader : readers) reader.join();
  EXPECT_LE(load.most, 4);
}

// As above with one decoding of each depth at a time, and blobs whose streams are all counted.
TEST_P(InFlightBlobTest, NestedBlobsAreReadWithOneDecodingOfEachDepth) {
  constexpr int kDepths = 3;
  constexpr uint32_t kReaders = 12;
  std::array<Load, kDepths> loads;
  std::vector<std::thread> readers;
  std::atomic<int> starts = 0;
  const BlobsPtr blobs = any_store(1);
  for (uint32_t i = 0; i < kReaders; ++i)
    readers.emplace_back([&, i] {
      const std::string expected = some_bytes(kMember, i);
      SourcePtr inner;
      for (int depth = 0; depth < kDepths; ++depth) {
        const TestProducerPtr made = loads[static_cast<size_t>(depth)].test_producer(i);
        if (inner != nullptr)
          made->before = [before = made->before, inner, expected](size_t given) {
            before(given);
            if (given == 0) {
              EXPECT_EQ(read(*inner, kMember - 1000, 1000), describe(expected.substr(kMember - 1000)));
            }
          };
        BlobProducer producer = producer_of(made, fmt::format("zip {} depth {}", i, depth));
        producer.depth = depth;
        producer.start = [&starts, start = std::move(producer.start)] {
          ++starts;
          return start();
        };
        inner = blobs->blob(std::move(producer));
      }
      EXPECT_EQ(read(*inner), describe(expected));
    });
  for (auto& reader : readers) reader.join();
  EXPECT_EQ(loads[0].most, 1);
  for (const Load& load : loads) EXPECT_LE(load.most, 8);  // with those that wait for the depth below
  EXPECT_EQ(starts, kDepths * static_cast<int>(kReaders));
  EXPECT_THAT(log, IsEmpty());
}

// Two members, a and b, whose streams read each other.
class BlobsThatNameEachOther {
 public:
  BlobsThatNameEachOther(const BlobsPtr& blobs, size_t size, int depth_a, int depth_b) {
    a = blobs->blob(member("a", size, depth_a, b));
    b = blobs->blob(member("b", size, depth_b, a));
  }

  SourcePtr a;
  SourcePtr b;

 private:
  static BlobProducer member(const std::string& name, size_t size, int depth, const SourcePtr& from) {
    BlobProducer producer{.name = name, .size = size, .digest = {}, .key = name};
    producer.depth = depth;
    producer.start = [&from]() -> Result<StreamPtr> { return stream_of(from); };
    return producer;
  }
};

TEST_P(InFlightBlobTest, BlobsThatNameEachOtherAreRefused) {
  for (const size_t size : {kMember, size_t{1000}}) {  // large and small
    SCOPED_TRACE(size);
    const BlobsPtr blobs = any_store(1);
    const BlobsThatNameEachOther equal(blobs, size, 1, 1);
    EXPECT_EQ(read(*equal.a), "error: b: a blob of depth 1 cannot be decoded from one of depth 1");
    EXPECT_EQ(read(*equal.b), "error: a: a blob of depth 1 cannot be decoded from one of depth 1");
    const BlobsThatNameEachOther nested(any_store(1), size, 2, 1);
    std::thread other(
        [&] { EXPECT_EQ(read(*nested.b), "error: a: a blob of depth 1 cannot be decoded from one of depth 2"); });
    EXPECT_EQ(read(*nested.a), "error: a: a blob of depth 1 cannot be decoded from one of depth 2");
    other.join();
  }
  EXPECT_THAT(making_files(), IsEmpty());
  EXPECT_THAT(this->blobs(), IsEmpty());
  EXPECT_EQ(read(*any_store(1)->blob(producer_of(member, "zip"))), describe(bytes));
}

// Containers nested in containers of the same store, while a fifth reader opens the source of four members.
TEST_P(InFlightBlobTest, ReaderThatHoldsContendedLockMakesProgress) {
  std::mutex lock;
  Gate held;
  Gate four;
  std::atomic<int> waiting = 0;
  const BlobsPtr blobs = any_store();
  std::thread holder([&] {
    const std::scoped_lock mine(lock);
    held.open();
    four.wait();
    EXPECT_EQ(read(*blobs->blob(producer_of(member, "zip"))), describe(bytes));
  });
  held.wait();
  std::vector<std::thread> readers;
  for (uint32_t i = 0; i < 4; ++i)
    readers.emplace_back([&, i] {
      const TestProducerPtr made = test_producer(some_bytes(kMember, i + 2));
      made->before = [&](size_t given) {
        if (given != 100'000) return;
        if (++waiting == 4) four.open();
        const std::scoped_lock theirs(lock);
      };
      BlobProducer nested = producer_of(made, fmt::format("zip {}", i));
      nested.depth = 1;
      EXPECT_EQ(read(*blobs->blob(std::move(nested))), describe(made->bytes));
    });
  for (auto& reader : readers) reader.join();
  holder.join();
}

// All decodings of a depth wait for a blob that gives no bytes.
TEST_P(InFlightBlobTest, DecodingsThatWaitDoNotDelayOthersOfTheirDepth) {
  Stuck stuck(1);
  const BlobsPtr blobs = any_store(2);
  const SourcePtr inner = blobs->blob(producer_of(stuck.test_producer, "inner"));
  std::vector<std::thread> readers;
  for (int i = 0; i < 4; ++i)
    readers.emplace_back([&, i] {
      const SourcePtr outer = blobs->blob(copy_of(inner, fmt::format("outer {}", i), 1));
      EXPECT_EQ(read(*outer), describe(stuck.test_producer->bytes));
    });
  BlobProducer other = producer_of(member, "zip");
  other.depth = 1;
  EXPECT_EQ(read(*blobs->blob(std::move(other))), describe(bytes));
  stuck.gate.open();
  for (auto& reader : readers) reader.join();
  EXPECT_EQ(stuck.test_producer->starts, 1);
}

TEST_P(InFlightBlobTest, BlobMayBeProducedFromOtherBlobsOfTheStore) {
  const BlobsPtr blobs = any_store();
  SourcePtr inner = blobs->blob(producer_of(member, "zip 0"));
  for (int depth = 1; depth < 8; ++depth) inner = blobs->blob(copy_of(inner, fmt::format("zip {}", depth), depth));
  EXPECT_EQ(read(*inner), describe(bytes));
  EXPECT_EQ(member->starts, 1);
}

TEST_P(InFlightBlobTest, DestroyedStoreCancelsItsProducers) {
  // Two million pieces would take long; the store is destroyed after the first.
  member->bytes = some_bytes(2'000'000);
  member->piece = 1;
  std::atomic<size_t> given_in_all = 0;
  member->before = [&](size_t given) { given_in_all = given; };
  BlobsPtr blobs = any_store();
  const auto blob = blobs->blob(producer_of(member, "zip 1"));
  EXPECT_EQ(read(*blob, 0, 5000), describe(member->bytes.substr(0, 5000)));
  blobs = nullptr;
  const size_t given = given_in_all;
  EXPECT_LT(given, 2'000'000U);
  EXPECT_THAT(making_files(), IsEmpty());
  EXPECT_THAT(this->blobs(), IsEmpty());
  EXPECT_EQ(given_in_all, given);  // and no thread continues
  // A source that outlives its store produces its bytes uncached.
  EXPECT_EQ(read(*blob, 10, 5000), describe(member->bytes.substr(10, 5000)));
  EXPECT_THAT(log, IsEmpty());
}

TEST_P(InFlightBlobTest, WaitingReaderIsServedUncachedWhenStoreIsDestroyed) {
  Gate waiting;
  Gate gone;
  member->before = [&](size_t given) {
    if (member->starts > 1 || given < 100'000) return;
    waiting.open();
    gone.wait();
  };
  BlobsPtr blobs = any_store();
  const auto blob = blobs->blob(producer_of(member, "zip 1"));
  std::thread reader([&] { EXPECT_EQ(read(*blob), describe(bytes)); });
  waiting.wait();
  std::thread closer([&] { blobs = nullptr; });
  gone.open();
  closer.join();
  reader.join();
}

// A blob's source may be the last owner of the store.
TEST_P(InFlightBlobTest, StoreMayBeDestroyedInOneOfItsProducerThreads) {
  Gate gate;
  const auto ended = std::make_shared<Gate>();
  BlobsPtr blobs = any_store();
  {
    BlobProducer producer = producer_of(member, "zip 1");
    member->before = [&](size_t given) {
      if (given == 100'000) gate.wait();
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
    producer.start = [owner = std::make_shared<Owner>(blobs, ended), start = producer.start] { return start(); };
    const auto blob = blobs->blob(std::move(producer));
    EXPECT_EQ(read(*blob, 0, 50'000), describe(bytes.substr(0, 50'000)));
  }
  blobs = nullptr;
  gate.open();
  ended->wait();
}

TEST_P(InFlightBlobTest, LibraryExceptionBecomesError) {
  member->before = [](size_t given) {
    if (given > 0) throw std::bad_alloc();
  };
  const BlobsPtr blobs = any_store();
  const auto blob = blobs->blob(producer_of(member, "zip 1"));
  EXPECT_EQ(read(*blob), "error: out of memory");
  member->before = nullptr;
  EXPECT_EQ(read(*blob), describe(bytes));
}

// The start function, in a process that runs out of memory at its first copy.
struct Copied {
  std::shared_ptr<std::atomic<int>> failures;
  TestProducerPtr test_producer;

  Copied(std::shared_ptr<std::atomic<int>> f, TestProducerPtr m)
      : failures(std::move(f)), test_producer(std::move(m)) {}
  Copied(Copied&&) = default;
  Copied(const Copied& other) : failures(other.failures), test_producer(other.test_producer) {
    if (*failures > 0) {
      --*failures;
      throw std::bad_alloc();
    }
  }
  Copied& operator=(const Copied&) = delete;
  Copied& operator=(Copied&&) = delete;
  ~Copied() = default;
  Result<StreamPtr> operator()() const { return std::make_unique<TestStream>(test_producer); }
};

TEST_P(InFlightBlobTest, BlobIsReadUncachedWhenOutOfMemory) {
  const auto failures = std::make_shared<std::atomic<int>>(0);
  const BlobsPtr blobs = any_store();
  BlobProducer producer = producer_of(member, "zip 1");
  producer.start = Copied(failures, member);
  const auto blob = blobs->blob(std::move(producer));
  *failures = 1;
  EXPECT_EQ(read(*blob), describe(bytes));
  EXPECT_EQ(*failures, 0);
  EXPECT_EQ(read(*blob), describe(bytes));
}

}  // namespace
}  // namespace weightfs::test::in_flight_blob_test
