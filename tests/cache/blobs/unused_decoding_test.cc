// Decoding ends when no file is open and no reader waits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "base/cancel.h"
#include "base/files/file_source.h"
#include "tests/cache/store_fixture.h"

namespace weightfs::test::unused_decoding_test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class UnusedDecoding : public StoreDirectory, public testing::WithParamInterface<std::string> {
 protected:
  static constexpr size_t kHuge = 40'000'000;

  BlobsPtr any_store() const {
    StoreOptions options{GetParam() == "Directory" ? directory : "", 100 << 20};
    options.times.unused_decoding = std::chrono::milliseconds(50);
    return blob_store(std::move(options));
  }

  // A producer whose stream gives one half at once, and then nothing until it is cancelled.
  BlobProducer endless(const std::string& key) {
    BlobProducer producer;
    producer.name = "member";
    producer.size = kHuge;
    producer.key = key;
    producer.start = [this]() -> Result<StreamPtr> { return std::make_unique<Endless>(this); };
    return producer;
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
        eventually([] { return is_cancelled(); });
        return size_t{1};
      }
      test_->given += count;
      return count;
    }

   private:
    UnusedDecoding* test_;
  };

  void wait_until_no_stream() const {
    EXPECT_TRUE(eventually([this] { return streams == 0; }));
  }
  // As long as unused decoding lasts: until another one has ended.
  void wait_for_end_of_unused_decoding(const BlobsPtr& in) {
    byte_at(*in->blob(endless("unused")), 40'000);
    wait_until_no_stream();
  }
  static std::string byte_at(const Source& source, uint64_t offset) { return read(source, offset, 1); }

  std::atomic<int> streams = 0;
  std::atomic<size_t> given = 0;  // by all streams
};

INSTANTIATE_TEST_SUITE_P(Stores, UnusedDecoding, testing::Values("Directory", "Temporary"),
                         [](const auto& instance) { return instance.param; });

// semantics 9.8
TEST_P(UnusedDecoding, EndsWithoutFilesWhenLastFileIsClosed) {
  const BlobsPtr blobs = any_store();
  const auto blob = blobs->blob(endless("zip"));
  auto open = blob->keep_cached();
  byte_at(*blob, 40'000);
  EXPECT_EQ(streams, 1);
  open = nullptr;
  wait_until_no_stream();
  EXPECT_LT(given, kHuge);
  EXPECT_THAT(remaining_making_files(), IsEmpty());
  EXPECT_THAT(this->blobs(), IsEmpty());
}

TEST_P(UnusedDecoding, EndsWhenReaderWithoutOpenFileStops) {
  const BlobsPtr blobs = any_store();
  const auto blob = blobs->blob(endless("zip"));
  byte_at(*blob, 40'000);
  wait_until_no_stream();
  EXPECT_LT(given, kHuge);
}

// A stream continues after the other reader has gone.
TEST_P(UnusedDecoding, ContinuesForOtherReader) {
  member = test_producer(some_bytes(3'000'000));
  std::atomic<bool> may_end = false;
  member->before = [&](size_t at) {
    if (at >= 1'000'000) eventually([&] { return may_end || is_cancelled(); });
  };
  const BlobsPtr blobs = any_store();
  const auto one = blobs->blob(producer_of(member, "zip"));
  const auto other = blobs->blob(producer_of(member, "zip"));
  auto first = one->keep_cached();
  const auto second = other->keep_cached();
  EXPECT_EQ(read(*one, 0, 40'000), describe(member->bytes.substr(0, 40'000)));
  first = nullptr;
  wait_for_end_of_unused_decoding(blobs);
  may_end = true;
  EXPECT_EQ(read(*other), describe(member->bytes));
  EXPECT_EQ(member->starts, 1);
}

TEST_P(UnusedDecoding, SlowReaderKeepsItsDecoding) {
  member = test_producer(some_bytes(3'000'000));
  std::atomic<bool> may_end = false;
  member->before = [&](size_t at) {
    if (at >= 1'000'000) eventually([&] { return may_end || is_cancelled(); });
  };
  const BlobsPtr blobs = any_store();
  const auto blob = blobs->blob(producer_of(member, "zip"));
  const auto open = blob->keep_cached();
  EXPECT_EQ(read(*blob, 0, 40'000), describe(member->bytes.substr(0, 40'000)));
  wait_for_end_of_unused_decoding(blobs);
  may_end = true;
  EXPECT_EQ(read(*blob), describe(member->bytes));
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

// A member of a nested archive: both are decoded for one reader.
TEST_P(UnusedDecoding, EndsTogetherWithItsSource) {
  const BlobsPtr blobs = any_store();
  const auto inner = blobs->blob(endless("inner"));
  BlobProducer producer;
  producer.name = "outer";
  producer.size = kHuge;
  producer.key = "outer";
  producer.depth = 1;
  producer.start = [inner]() -> Result<StreamPtr> { return std::make_unique<Copied>(inner); };
  const auto outer = blobs->blob(std::move(producer));
  auto open = outer->keep_cached();
  byte_at(*outer, 40'000);
  EXPECT_EQ(streams, 1);
  open = nullptr;
  wait_until_no_stream();
  EXPECT_LT(given, kHuge);
  EXPECT_THAT(remaining_making_files(), IsEmpty());
}

// While the outer one is decoded, the inner one is not restarted, even if it is read rarely.
TEST_P(UnusedDecoding, NestedBlobHoldsItsSource) {
  member = test_producer(some_bytes(3'000'000));
  const BlobsPtr blobs = any_store();
  const auto inner = blobs->blob(producer_of(member, "inner"));
  Gate gate;
  std::promise<void> is_paused;
  member->before = [&](size_t at) {
    if (at >= 2'000'000) gate.wait();
  };
  BlobProducer producer;
  producer.name = "outer";
  producer.size = 3'000'000;
  producer.key = "outer";
  producer.depth = 1;
  class Seldom final : public Stream {
   public:
    Seldom(SourcePtr from, std::promise<void>& is_paused, Gate& gate)
        : copied_(std::move(from)), is_paused_(is_paused), gate_(gate) {}
    Result<size_t> next(std::span<std::byte> out) override {
      const size_t got = TRY(copied_.next(out));
      if ((at_ += got) == 50'000) {
        is_paused_.set_value();
        gate_.wait();
      }
      return got;
    }

   private:
    Copied copied_;
    std::promise<void>& is_paused_;
    Gate& gate_;
    size_t at_ = 0;
  };
  producer.start = [&, inner]() -> Result<StreamPtr> { return std::make_unique<Seldom>(inner, is_paused, gate); };
  const auto outer = blobs->blob(std::move(producer));
  const auto open = outer->keep_cached();
  std::jthread reader([&] { EXPECT_EQ(read(*outer), describe(member->bytes)); });
  is_paused.get_future().wait();
  wait_for_end_of_unused_decoding(blobs);
  gate.open();
  reader.join();
  EXPECT_EQ(member->starts, 1);
}

// The stream gives no byte, so its reader waits until it is killed; then the stream's input fails.
TEST_P(UnusedDecoding, KilledReaderReturnsAndStreamEnds) {
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
  BlobProducer producer = producer_of(member, "zip");
  producer.start = [&]() -> Result<StreamPtr> {
    ++streams;
    return std::make_unique<Silent>(input, asked);
  };
  const BlobsPtr blobs = any_store();
  const auto blob = blobs->blob(producer);
  std::thread reader([&] {
    const CancelScope scope([&] { return killed.load(); });
    EXPECT_THAT(read(*blob), testing::HasSubstr("error: cancelled"));
  });
  while (asked == 0) std::this_thread::yield();
  killed = true;
  reader.join();
  EXPECT_TRUE(eventually([&] { return input.use_count() == 1; })) << "held by the stream";
  EXPECT_THAT(remaining_making_files(), IsEmpty());
  EXPECT_THAT(this->blobs(), IsEmpty());
}

}  // namespace
}  // namespace weightfs::test::unused_decoding_test
