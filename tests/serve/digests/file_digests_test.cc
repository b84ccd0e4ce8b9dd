// Digests of files whose container states none: each is computed once, and kept under the identity of the file.
#include "serve/digests/file_digests.h"

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace weightfs::file_digests_test {
namespace {

using namespace digests;

constexpr uint64_t kSize = 5;

// Zeros; counts the reads of its first byte, which wait while it is closed.
class CountedFile final : public Source {
 public:
  explicit CountedFile(std::string identity) : identity_(std::move(identity)) {}
  uint64_t size() const override { return kSize; }
  Result<size_t> read(uint64_t offset, std::span<std::byte> out) const override {
    if (offset == 0) ++passes_;
    std::unique_lock lock(mutex_);
    opened_.wait(lock, [this] { return !is_closed_; });
    const size_t count = bytes_inside(kSize, offset, out.size());
    std::fill_n(out.begin(), count, std::byte{0});
    return count;
  }
  std::string identity() const override { return identity_; }
  int passes() const { return passes_; }
  void close() { is_closed_ = true; }
  void open() {
    const std::scoped_lock lock(mutex_);
    is_closed_ = false;
    opened_.notify_all();
  }

 private:
  std::string identity_;
  mutable std::atomic<int> passes_ = 0;
  mutable std::mutex mutex_;  // guards the next one
  mutable std::condition_variable opened_;
  bool is_closed_ = false;
};

Patience patient() { return {std::chrono::steady_clock::now() + std::chrono::minutes(1)}; }

TEST(FileDigests, AreComputedOnceAndKeptForLaterProcesses) {
  std::map<std::string, std::string> kept;
  const Keeper keeper{[&](const std::string& key) {
                        const auto found = kept.find(key);
                        return found == kept.end() ? std::nullopt : std::optional(found->second);
                      },
                      [&](const std::string& key, std::string_view text) { kept[key] = text; }};
  const auto file = std::make_shared<CountedFile>("device 1 inode 2");
  const Digest expected = sha256(std::string(kSize, '\0'));
  {
    FileDigests digests(keeper);
    EXPECT_EQ(digests.get(file, "w", patient()).value(), expected);
    EXPECT_EQ(digests.get(file, "w", patient()).value(), expected);
  }
  FileDigests later(keeper);
  EXPECT_EQ(later.get(file, "w", patient()).value(), expected);
  EXPECT_EQ(file->passes(), 1);
  EXPECT_EQ(kept.size(), 1u);
}

TEST(FileDigests, AFileOfAnotherIdentityIsHashedAgain) {
  FileDigests digests;
  const auto before = std::make_shared<CountedFile>("mtime 1"), after = std::make_shared<CountedFile>("mtime 2");
  EXPECT_TRUE(digests.get(before, "w", patient()).has_value());
  EXPECT_TRUE(digests.get(after, "w", patient()).has_value());
  EXPECT_EQ(after->passes(), 1);
}

TEST(FileDigests, AnImpatientCallerLearnsTheProgress) {
  FileDigests digests;
  const auto file = std::make_shared<CountedFile>("device 1 inode 3");
  const auto none = digests.get(file, "w.gguf", {std::chrono::steady_clock::time_point()});
  // The other thread may have been faster.
  if (!none) {
    EXPECT_EQ(none.error().code, Code::resource);
    EXPECT_NE(none.error().message.find("w.gguf: "), std::string::npos);
  }
  EXPECT_TRUE(digests.get(file, "w.gguf", patient()).has_value());
  EXPECT_EQ(file->passes(), 1);
}

TEST(FileDigests, KnownReadsNothing) {
  FileDigests digests;
  for (const char* const identity : {"", "device 1 inode 4"}) {
    const auto file = std::make_shared<CountedFile>(identity);
    EXPECT_FALSE(digests.known(file)) << identity;
    EXPECT_EQ(file->passes(), 0) << identity;
    EXPECT_TRUE(digests.get(file, "w", patient()).has_value());
    EXPECT_EQ(digests.known(file), sha256(std::string(kSize, '\0'))) << identity;
    EXPECT_EQ(file->passes(), 1) << identity;
  }
}

TEST(FileDigests, AFileWithoutIdentityIsNotKeptOpen) {
  FileDigests digests;
  auto file = std::make_shared<CountedFile>("");
  const std::weak_ptr<CountedFile> same = file;
  EXPECT_TRUE(digests.get(file, "w", patient()).has_value());
  file.reset();
  // The other thread has it until it has ended with it.
  digests.stop();
  EXPECT_TRUE(digests.has_ended(std::chrono::minutes(1)));
  EXPECT_TRUE(same.expired());
}

TEST(FileDigests, ManyCallersDoNotWait) {
  FileDigests digests;
  const auto file = std::make_shared<CountedFile>("device 1 inode 5");
  file->close();
  std::atomic<size_t> waiting = 0;
  std::vector<std::thread> callers;
  for (size_t i = 0; i < FileDigests::kMaxCallers; ++i)
    callers.emplace_back([&] {
      bool is_counted = false;
      const auto has_left = [&] {
        if (!std::exchange(is_counted, true)) ++waiting;
        return false;
      };
      EXPECT_TRUE(digests.get(file, "w", {patient().until, has_left}).has_value());
    });
  while (waiting < FileDigests::kMaxCallers) std::this_thread::yield();
  const auto further = digests.get(file, "w", {std::chrono::steady_clock::time_point::max()});
  ASSERT_FALSE(further.has_value());
  EXPECT_EQ(further.error().code, Code::resource);
  file->open();
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(file->passes(), 1);
  EXPECT_TRUE(digests.get(file, "w", patient()).has_value());
}

TEST(FileDigests, BegunFilesAreAllComputed) {
  FileDigests digests;
  const auto first = std::make_shared<CountedFile>("device 1 inode 6"), last = std::make_shared<CountedFile>("inode 7");
  digests.begin(first, "v");
  digests.begin(last, "w");
  EXPECT_TRUE(digests.get(last, "w", patient()).has_value());
  EXPECT_TRUE(digests.known(first).has_value());
  EXPECT_EQ(first->passes(), 1);
}

TEST(FileDigests, StopDoesNotWaitForAFileThatDoesNotRespond) {
  FileDigests digests;
  const auto file = std::make_shared<CountedFile>("device 1 inode 8");
  file->close();
  digests.begin(file, "w");
  while (file->passes() == 0) std::this_thread::yield();
  digests.stop();
  EXPECT_FALSE(digests.has_ended(std::chrono::milliseconds(0)));
  file->open();
  EXPECT_TRUE(digests.has_ended(std::chrono::minutes(1)));
}

TEST(FileDigests, AnErrorOfTheKeeperFailsTheFileAlone) {
  const Keeper keeper{{}, [](const std::string&, std::string_view) { throw std::bad_alloc(); }};
  FileDigests digests(keeper);
  const auto file = std::make_shared<CountedFile>("device 1 inode 9"), other = std::make_shared<CountedFile>("");
  EXPECT_FALSE(digests.get(file, "w", patient()).has_value());
  EXPECT_TRUE(digests.get(other, "w", patient()).has_value());
}

}  // namespace
}  // namespace weightfs::file_digests_test
