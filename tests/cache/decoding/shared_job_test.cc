#include "cache/decoding/shared_job.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "base/cancel.h"
#include "base/digest.h"
#include "tests/support/eventually.h"

namespace weightfs::test::shared_job_test {
namespace {

using blobs::SharedJob;

using namespace std::chrono_literals;

constexpr std::chrono::milliseconds kUnusedAfter{30};
constexpr std::chrono::hours kNever{1};

const Digest kDigest = sha256("the blob");

class SharedJobTest : public testing::Test {
 protected:
  // A job whose thread calls `work` each time that it runs.
  SharedJob job(std::function<Result<store::BlobHandle>()> work, std::chrono::milliseconds unused_after = kNever) {
    return {"m", unused_after, [this, work = std::move(work)](const std::stop_token&) {
              ++runs_;
              return work();
            }};
  }
  static Result<store::BlobHandle> made() { return store::BlobHandle{nullptr, kDigest}; }
  static void wait_until_cancelled() {
    while (!is_cancelled()) std::this_thread::sleep_for(1ms);
  }

  std::atomic<int> runs_ = 0;
};

TEST_F(SharedJobTest, AllThatWaitShareOneRun) {
  std::atomic<bool> may_end = false;
  SharedJob shared = job([&] {
    while (!may_end) std::this_thread::sleep_for(1ms);
    return made();
  });
  std::atomic<int> got = 0;
  {
    std::vector<std::jthread> readers;
    for (int i = 0; i < 8; ++i)
      readers.emplace_back([&] {
        const auto blob = shared.wait();
        got += blob && blob->digest == kDigest;
      });
    EXPECT_TRUE(eventually([&] { return shared.is_running(); }));
    may_end = true;
  }
  EXPECT_EQ(got, 8);
  EXPECT_GE(runs_, 1);
  EXPECT_LE(runs_, 8) << "a thread that was late starts another run";
}

TEST_F(SharedJobTest, FailureIsReturnedAndTheNextWaitRunsAgain) {
  SharedJob shared = job([&]() -> Result<store::BlobHandle> {
    if (runs_ == 1) return failure(Code::network, "no route");
    return made();
  });
  const auto failed = shared.wait();
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().message, "no route");
  EXPECT_TRUE(shared.wait());
  EXPECT_EQ(runs_, 2);
}

TEST_F(SharedJobTest, RunThatNobodyWaitsForIsCancelled) {
  SharedJob shared = job(
      [&] {
        if (runs_ > 1) return made();
        wait_until_cancelled();
        return Result<store::BlobHandle>(failure(Code::resource, "cancelled"));
      },
      kUnusedAfter);
  {
    const auto until = std::chrono::steady_clock::now() + 10ms;
    const CancelScope scope([&] { return std::chrono::steady_clock::now() > until; });
    const auto cancelled = shared.wait();
    ASSERT_FALSE(cancelled);
    EXPECT_EQ(cancelled.error().code, Code::resource);
  }
  EXPECT_TRUE(eventually([&] { return !shared.is_running(); }));
  EXPECT_TRUE(shared.wait()) << "the result of the cancelled run is ignored";
  EXPECT_EQ(runs_, 2);
}

TEST_F(SharedJobTest, StartedRunIsNotCancelledAsUnused) {
  std::atomic<bool> was_cancelled = false;
  SharedJob shared = job(
      [&] {
        std::this_thread::sleep_for(5 * kUnusedAfter);
        was_cancelled = is_cancelled();
        return made();
      },
      kUnusedAfter);
  shared.start();
  EXPECT_TRUE(eventually([&] { return !shared.is_running(); }));
  EXPECT_EQ(runs_, 1);
  EXPECT_FALSE(was_cancelled);
}

TEST_F(SharedJobTest, StopEndsTheRunAndAllThatWait) {
  SharedJob shared = job([&]() -> Result<store::BlobHandle> {
    wait_until_cancelled();
    return failure(Code::resource, "cancelled");
  });
  std::jthread reader([&] { EXPECT_FALSE(shared.wait()); });
  EXPECT_TRUE(eventually([&] { return shared.is_running(); }));
  shared.stop();
  reader.join();
  EXPECT_FALSE(shared.wait()) << "it starts no more";
  EXPECT_EQ(runs_, 1);
}

}  // namespace
}  // namespace weightfs::test::shared_job_test
