// Which ranges are downloaded before they are read, with sources that record the requests.
#include "fs/reading/prefetch.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "base/cancel.h"
#include "base/download_scope.h"
#include "fs/layout/layout.h"
#include "tests/support/counted_source.h"
#include "tests/support/eventually.h"
#include "tests/support/models.h"

namespace weightfs::test::prefetch_test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

constexpr uint64_t kMiB = 1 << 20;

// Records what is requested from it.
class Requests {
 public:
  using Range = std::pair<uint64_t, uint64_t>;

  void add(ByteRange range) {
    const std::scoped_lock lock(mutex_);
    ranges_.emplace_back(range.from, range.to);
    bytes_ += range.to - range.from;
    changed_.notify_all();
  }
  void cancelled() {
    const std::scoped_lock lock(mutex_);
    ++cancelled_;
    changed_.notify_all();
  }
  bool wait_for_bytes(uint64_t bytes) {
    return wait([&] { return bytes_ >= bytes; });
  }
  bool wait_for_cancelled() {
    return wait([&] { return cancelled_ > 0; });
  }
  std::vector<Range> ranges() {
    const std::scoped_lock lock(mutex_);
    return ranges_;
  }
  uint64_t bytes() {
    const std::scoped_lock lock(mutex_);
    return bytes_;
  }

 private:
  template <class Condition>
  bool wait(const Condition& condition) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(30), condition);
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Range> ranges_;
  uint64_t bytes_ = 0;
  int cancelled_ = 0;
};

// What prefetch() does after it was recorded.
enum class Fetch { succeeds, fails, waits_for_cancellation };

class RemoteDouble final : public Source {
 public:
  RemoteDouble(uint64_t size, Requests& requests, Fetch fetch) : size_(size), requests_(requests), fetch_(fetch) {}
  uint64_t size() const override { return size_; }
  Result<size_t> read(uint64_t, std::span<std::byte>) const override { return failure(Code::io, "read"); }
  Result<void> prefetch(ByteRange range) const override {
    TRY_VOID(DownloadScope::charge(range.to - range.from));
    requests_.add(range);
    if (fetch_ == Fetch::succeeds) return {};
    if (fetch_ == Fetch::fails) return failure(Code::network, "not responding");
    while (!is_cancelled()) std::this_thread::yield();
    requests_.cancelled();
    return failure(Code::resource, "cancelled");
  }

 private:
  uint64_t size_;
  Requests& requests_;
  Fetch fetch_;
};

class LocalDouble final : public Source {
 public:
  explicit LocalDouble(uint64_t size) : size_(size) {}
  uint64_t size() const override { return size_; }
  Result<Place> place(uint64_t offset, Opens) const override {
    return Place{.length = bytes_after(offset), .is_ready = true};
  }
  Result<size_t> read(uint64_t, std::span<std::byte>) const override { return failure(Code::io, "read"); }
  Result<void> prefetch(ByteRange) const override { return {}; }

 private:
  uint64_t size_;
};

std::set<size_t> below(size_t count) {
  std::set<size_t> numbers;
  for (size_t i = 0; i < count; ++i) numbers.insert(i);
  return numbers;
}

// A model of tensors in one file.
class PrefetchTest : public testing::Test {
 protected:
  // Tensors of these sizes, one after the other; those with the numbers `local_tensors` are local.
  void mount(const std::vector<uint64_t>& sizes, Fetch fetch = Fetch::succeeds, PrefetchOptions options = {},
             const std::set<size_t>& local_tensors = {}) {
    uint64_t all = 0;
    for (const uint64_t size : sizes) all += size;
    const auto file = std::make_shared<RemoteDouble>(all, requests, fetch);
    auto model = std::make_shared<Model>();
    model->format = "test";
    model->parts.push_back({"local", Later<SourcePtr>::of(local)});
    model->parts.push_back({"remote", Later<SourcePtr>::of(file)});
    const auto memory = std::make_shared<LocalDouble>(all);
    for (uint64_t i = 0, at = 0; i < sizes.size(); at += sizes[i++]) {
      Tensor tensor = make_tensor(name(i), "uint8", {0});
      tensor.shape = {sizes[i]};
      tensor.source = slice(local_tensors.contains(i) ? SourcePtr(memory) : file, at, sizes[i]).value();
      model->tensors.push_back(tensor);
    }
    forest = std::make_unique<Forest>(lay_out(model, "/m.test", 0));
    options.log = [this](const std::string& line) { log.push_back(line); };
    prefetch = std::make_unique<Prefetch>(*forest, options);
  }
  static std::string name(size_t i) { return fmt::format("t{:03}", i); }
  Ino file_of(size_t i, const std::string& view = "tensors/", const std::string& suffix = "") {
    return forest->resolve(view + name(i) + suffix).value();
  }
  void read(size_t i) {
    prefetch->begin_file(file_of(i));
    prefetch->finish_file(file_of(i));
  }
  void read(const std::vector<size_t>& order) {
    for (const size_t i : order) read(i);
  }
  // All requests, after the thread has ended.
  std::vector<Requests::Range> all_requests() {
    prefetch = nullptr;
    return requests.ranges();
  }

  Requests requests;
  std::shared_ptr<CountedSource> local = std::make_shared<CountedSource>(std::string(1000, 'l'));
  std::vector<std::string> log;
  std::unique_ptr<Forest> forest;
  std::unique_ptr<Prefetch> prefetch;
};

// semantics 21.9: tensors after three that were read in order.
TEST_F(PrefetchTest, ThreeTensorsInOrderDownloadTheNextOnes) {
  mount(std::vector<uint64_t>(20, kMiB));
  read({0, 1, 2});
  EXPECT_TRUE(requests.wait_for_bytes(17 * kMiB));
  EXPECT_THAT(all_requests(), ElementsAre(Pair(3 * kMiB, 20 * kMiB)));
  EXPECT_EQ(local->bytes_read, 0u);
}

TEST_F(PrefetchTest, OrderMayBeginAtAnyTensorAndInAnyView) {
  mount(std::vector<uint64_t>(20, kMiB));
  read(12);
  prefetch->finish_file(file_of(13, "npy/", ".npy"));
  read(14);
  EXPECT_TRUE(requests.wait_for_bytes(5 * kMiB));
  EXPECT_THAT(all_requests(), ElementsAre(Pair(15 * kMiB, 20 * kMiB)));
}

TEST_F(PrefetchTest, OtherOrdersDownloadNothing) {
  mount(std::vector<uint64_t>(20, kMiB));
  read({0, 1, 3, 4, 3, 2, 1, 0, 0, 0, 5, 7, 9, 11});
  EXPECT_THAT(all_requests(), IsEmpty());
}

TEST_F(PrefetchTest, OffDownloadsNothing) {
  mount(std::vector<uint64_t>(20, kMiB), Fetch::succeeds, {.mode = PrefetchMode::off});
  prefetch->start();
  read({0, 1, 2, 3, 4});
  EXPECT_THAT(all_requests(), IsEmpty());
}

TEST_F(PrefetchTest, EmptyTensorsDoNotEndTheOrder) {
  mount({kMiB, 0, 0, kMiB, 0, kMiB, 0, kMiB});
  read({0, 3, 5});
  EXPECT_TRUE(requests.wait_for_bytes(kMiB));
  EXPECT_THAT(all_requests(), ElementsAre(Pair(3 * kMiB, 4 * kMiB)));
}

// Readers wait for the search for the next tensor with bytes.
TEST_F(PrefetchTest, ManyEmptyTensorsInARowEndTheOrder) {
  std::vector<uint64_t> sizes(3, kMiB);
  sizes.resize(3 + Prefetch::kMaxEmpty, 0);
  sizes.resize(sizes.size() + 4, kMiB);
  const size_t behind = sizes.size() - 4;
  mount(sizes);
  read({0, 1, 2});
  EXPECT_THAT(requests.ranges(), IsEmpty());
  read({behind, behind + 1, behind + 2});
  EXPECT_TRUE(requests.wait_for_bytes(kMiB));
  EXPECT_THAT(all_requests(), ElementsAre(Pair(6 * kMiB, 7 * kMiB)));
}

TEST_F(PrefetchTest, RequestHasALimitedNumberOfTensors) {
  mount(std::vector<uint64_t>(3 + 2 * Prefetch::kMaxTogether, 1), Fetch::succeeds);
  read({0, 1, 2});
  EXPECT_TRUE(requests.wait_for_bytes(2 * Prefetch::kMaxTogether));
  for (const auto& [from, to] : all_requests()) EXPECT_LE(to - from, Prefetch::kMaxTogether);
}

TEST_F(PrefetchTest, WindowGrowsWithEachTensorUpToItsLimit) {
  constexpr uint64_t kSize = 64 * kMiB;
  mount(std::vector<uint64_t>(20, kSize));
  read({0, 1, 2});
  uint64_t window = Prefetch::kFirstWindow;
  uint64_t end = 3 * kSize + window;  // of what is requested
  ASSERT_TRUE(requests.wait_for_bytes(window));
  for (size_t i = 3; i < 9; ++i) {
    const uint64_t before = requests.bytes();
    EXPECT_EQ(requests.ranges().back().second, end) << i;
    read(i);
    window = std::min(2 * window, Prefetch::kMaxWindow);
    const uint64_t begin = std::max(end, (i + 1) * kSize);
    end = (i + 1) * kSize + window;
    ASSERT_TRUE(requests.wait_for_bytes(before + end - begin)) << i;
  }
  for (const auto& [from, to] : all_requests()) EXPECT_LE(to - from, Prefetch::kMaxRequest);
  EXPECT_EQ(requests.ranges().back().second, end);
}

TEST_F(PrefetchTest, WindowIsAtMostAQuarterOfTheCache) {
  mount(std::vector<uint64_t>(20, kMiB), Fetch::succeeds, {.cache_size = 8 * kMiB});
  read({0, 1, 2});
  ASSERT_TRUE(requests.wait_for_bytes(2 * kMiB));
  read(3);
  ASSERT_TRUE(requests.wait_for_bytes(3 * kMiB));
  EXPECT_EQ(all_requests().back().second, 6 * kMiB);
}

TEST_F(PrefetchTest, SmallTensorsAreRequestedTogether) {
  constexpr uint64_t kSize = 64 << 10;
  mount(std::vector<uint64_t>(400, kSize), Fetch::succeeds, {.cache_size = 32 * kMiB});  // a window of 8 MiB
  read({0, 1, 2});
  for (size_t i = 3; i < 203; ++i) {
    read(i);
    ASSERT_TRUE(requests.wait_for_bytes((i - 2) * kSize + 6 * kMiB)) << i;
  }
  const auto all = all_requests();
  EXPECT_LE(all.size(), 1 + 200 * kSize / (2 * kMiB));
  for (const auto& [from, to] : all) EXPECT_GE(to - from, 2 * kMiB);
}

TEST_F(PrefetchTest, LocalTensorsAreSkipped) {
  mount(std::vector<uint64_t>(20, 1000), Fetch::succeeds, {}, below(10));
  read({0, 1, 2});
  EXPECT_TRUE(requests.wait_for_bytes(10'000));
  EXPECT_THAT(all_requests(), ElementsAre(Pair(10'000, 20'000)));
}

// The thread requests a part of a local tensor, which is then skipped.
TEST_F(PrefetchTest, LocalTensorLargerThanTheWindowIsSkippedOnce) {
  std::vector<uint64_t> sizes(12, kMiB);
  sizes[4] = 100 * kMiB;
  mount(sizes, Fetch::succeeds, {}, {4});
  read({0, 1, 2});
  ASSERT_TRUE(requests.wait_for_bytes(kMiB));
  read({3, 4, 5, 6});
  ASSERT_TRUE(requests.wait_for_bytes(2 * kMiB));
  for (const auto& [from, to] : all_requests()) {
    EXPECT_TRUE(to <= 4 * kMiB || from >= 104 * kMiB) << from << " to " << to;
    EXPECT_LE(to, 111 * kMiB);
  }
}

TEST_F(PrefetchTest, ManyLocalTensorsAreSkippedAFewAtATime) {
  mount(std::vector<uint64_t>(200, 1000), Fetch::succeeds, {}, below(190));
  size_t last = 0;
  const auto is_requested = [&] { return requests.bytes() > 0; };
  for (; last < 190 && !test::eventually(is_requested, std::chrono::milliseconds(1)); ++last) read(last);
  EXPECT_GT(last, Prefetch::kMinRun);
  EXPECT_THAT(all_requests(), ElementsAre(Pair(190'000, 200'000)));
}

TEST_F(PrefetchTest, TensorOutOfOrderCancelsTheDownload) {
  mount(std::vector<uint64_t>(20, 64 * kMiB), Fetch::waits_for_cancellation);
  read({0, 1, 2});
  ASSERT_TRUE(requests.wait_for_bytes(1));
  prefetch->begin_file(file_of(3));
  prefetch->begin_file(forest->resolve("files/local").value());
  prefetch->begin_file(file_of(9));
  EXPECT_TRUE(requests.wait_for_cancelled());
  EXPECT_EQ(all_requests().size(), 1u);
  EXPECT_THAT(log, IsEmpty());
}

TEST_F(PrefetchTest, StopCancelsTheDownloadAndAllLaterOnes) {
  mount(std::vector<uint64_t>(20, kMiB), Fetch::waits_for_cancellation);
  read({0, 1, 2});
  ASSERT_TRUE(requests.wait_for_bytes(1));
  prefetch->stop();
  EXPECT_TRUE(requests.wait_for_cancelled());
  read({0, 1, 2, 3});
  EXPECT_EQ(all_requests().size(), 1u);
  EXPECT_THAT(log, IsEmpty());
}

TEST_F(PrefetchTest, ErrorEndsTheOrderAndIsLoggedOnce) {
  mount(std::vector<uint64_t>(20, kMiB), Fetch::fails);
  read({0, 1, 2});
  ASSERT_TRUE(requests.wait_for_bytes(17 * kMiB));
  for (size_t i = 9; i < 20 && requests.ranges().size() < 2; i = i == 19 ? 9 : i + 1) read(i);
  EXPECT_GE(all_requests().size(), 2u);  // the loop may read another order before it sees the second request
  prefetch.reset();                      // it may be about to log
  EXPECT_THAT(log, ElementsAre("prefetch: not responding"));
}

// semantics 21.9: all files, in steps, then each as a whole; local ones are not read.
TEST_F(PrefetchTest, AllDownloadsFilesInSteps) {
  mount({20 * kMiB}, Fetch::succeeds, {.mode = PrefetchMode::all});
  prefetch->start();
  ASSERT_TRUE(requests.wait_for_bytes(40 * kMiB));
  EXPECT_THAT(all_requests(), ElementsAre(Pair(0, 8 * kMiB), Pair(8 * kMiB, 16 * kMiB), Pair(16 * kMiB, 20 * kMiB),
                                          Pair(0, 20 * kMiB)));
  EXPECT_EQ(local->bytes_read, 0u);
  EXPECT_THAT(log, IsEmpty());
}

TEST_F(PrefetchTest, AllWaitsForReaders) {
  mount({20 * kMiB}, Fetch::succeeds, {.mode = PrefetchMode::all});
  {
    const Prefetch::Read in_progress(*prefetch);
    prefetch->start();
    EXPECT_EQ(requests.bytes(), 0u);
  }
  EXPECT_TRUE(requests.wait_for_bytes(40 * kMiB));
}

TEST_F(PrefetchTest, AllEndsAtTheSizeOfTheCache) {
  mount({20 * kMiB}, Fetch::succeeds, {.mode = PrefetchMode::all, .cache_size = 17 * kMiB});
  prefetch->start();
  ASSERT_TRUE(requests.wait_for_bytes(16 * kMiB));
  EXPECT_EQ(all_requests().size(), 2u);
}

TEST_F(PrefetchTest, StopCancelsTheDownloadOfAllFiles) {
  mount({20 * kMiB}, Fetch::waits_for_cancellation, {.mode = PrefetchMode::all});
  prefetch->start();
  ASSERT_TRUE(requests.wait_for_bytes(1));
  prefetch->stop();
  EXPECT_TRUE(requests.wait_for_cancelled());
  EXPECT_EQ(all_requests().size(), 1u);
  EXPECT_THAT(log, IsEmpty());
}

}  // namespace
}  // namespace weightfs::test::prefetch_test
