// When requests are sent: turns, the order of those that wait, and origins that want to be left alone.
#include "cache/http/request_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

namespace weightfs::http::request_queue_test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using TurnPtr = std::unique_ptr<RequestQueue::Turn>;

class RequestQueueTest : public ::testing::Test {
 protected:
  // A queue with this limit, and a clock that the test moves.
  void use(size_t connections) {
    queue =
        std::make_unique<RequestQueue>(connections, [this] { return RequestQueue::Clock::time_point(time.load()); });
  }

  RequestQueue::Admission enter(const std::string& origin = "https://a:443", Urgency urgency = Urgency::waited_for) {
    auto admission = queue->enter({.origin = origin, .urgency = urgency, .stop = stop});
    EXPECT_TRUE(admission);
    return admission ? std::move(*admission) : RequestQueue::Admission();
  }

  // A request that waits in a thread, and notes its name when it has its turn.
  void wait_as(std::string name, Urgency urgency) {
    const size_t before = queue->waiting();
    threads.emplace_back([this, name, urgency] {
      const TurnPtr turn = enter("https://a:443", urgency).turn;
      order.push_back(name);  // with connections 1, one thread at a time
    });
    while (queue->waiting() == before) std::this_thread::yield();
  }

  std::atomic<RequestQueue::Clock::duration> time = RequestQueue::Clock::duration(seconds(1'000));
  std::unique_ptr<RequestQueue> queue;
  const std::stop_token stop = {};
  std::vector<std::string> order;
  std::vector<std::jthread> threads;
};

TEST_F(RequestQueueTest, NoMoreThanTheLimitRunAtATime) {
  use(3);
  std::atomic<int> running = 0, most = 0, done = 0;
  for (int i = 0; i < 24; ++i)
    threads.emplace_back([&] {
      const TurnPtr turn = enter().turn;
      const int now = ++running;
      for (int seen = most; now > seen && !most.compare_exchange_weak(seen, now);) {
      }
      while (done == 0 && running < 3) std::this_thread::yield();  // until the limit is reached once
      ++done;
      --running;
    });
  threads.clear();
  EXPECT_EQ(most, 3);
  EXPECT_EQ(done, 24);
}

TEST_F(RequestQueueTest, WithoutLimitNoneWaits) {
  use(0);
  std::vector<TurnPtr> turns;
  for (int i = 0; i < 300; ++i) turns.push_back(enter().turn);
  EXPECT_THAT(turns, ::testing::Each(::testing::NotNull()));
}

TEST_F(RequestQueueTest, OtherOriginsDoNotWait) {
  use(1);
  const TurnPtr held = enter().turn;
  EXPECT_NE(enter("https://b:443").turn, nullptr);
  EXPECT_NE(enter("http://a:80").turn, nullptr);
}

TEST_F(RequestQueueTest, RequestsOfReadersPassThoseAhead) {
  use(1);
  TurnPtr held = enter().turn;
  wait_as("ahead 1", Urgency::ahead);
  wait_as("reader 1", Urgency::waited_for);
  wait_as("ahead 2", Urgency::ahead);
  wait_as("reader 2", Urgency::waited_for);
  held.reset();
  threads.clear();
  EXPECT_THAT(order, ElementsAre("reader 1", "reader 2", "ahead 1", "ahead 2"));
}

// A reader may wait by now for what was requested ahead.
TEST_F(RequestQueueTest, RequestAheadIsPassedSoOftenOnly) {
  use(1);
  TurnPtr held = enter().turn;
  wait_as("ahead", Urgency::ahead);
  for (size_t i = 0; i <= RequestQueue::kMaxPassed; ++i) wait_as("reader", Urgency::waited_for);
  held.reset();
  threads.clear();
  ASSERT_EQ(order.size(), RequestQueue::kMaxPassed + 2);
  EXPECT_EQ(order[RequestQueue::kMaxPassed], "ahead");
}

TEST_F(RequestQueueTest, CancelledRequestLeaves) {
  use(1);
  TurnPtr held = enter().turn;
  std::stop_source cancelled;
  const std::string origin = "https://a:443";
  auto first = std::async(std::launch::async, [&] {
    const auto admission = queue->enter({.origin = origin, .stop = cancelled.get_token()});
    return admission ? std::string("sent") : admission.error().message;
  });
  while (queue->waiting() == 0) std::this_thread::yield();
  wait_as("second", Urgency::waited_for);
  cancelled.request_stop();
  EXPECT_EQ(first.get(), "https://a:443: cancelled");
  EXPECT_EQ(queue->waiting(), 1U);
  held.reset();
  threads.clear();
  EXPECT_THAT(order, ElementsAre("second"));
}

TEST_F(RequestQueueTest, DeadlineEndsTheWait) {
  use(1);
  const TurnPtr held = enter().turn;
  const std::string origin = "https://a:443";
  const auto admission =
      queue->enter({.origin = origin, .deadline = RequestQueue::Clock::now() + milliseconds(20), .stop = stop});
  ASSERT_FALSE(admission);
  EXPECT_EQ(admission.error().code, Code::network);
  EXPECT_TRUE(is_timeout(admission.error()));
  EXPECT_EQ(queue->waiting(), 0U);
}

TEST_F(RequestQueueTest, WaitIsReportedAndEndsWithItsReceiver) {
  use(1);
  const TurnPtr held = enter().turn;
  const std::string origin = "https://a:443";
  int calls = 0;
  const auto admission = queue->enter({.origin = origin, .stop = stop, .on_wait = [&]() -> Result<void> {
                                         if (++calls < 2) return {};
                                         return failure(Code::resource, "the reader has gone");
                                       }});
  ASSERT_FALSE(admission);
  EXPECT_EQ(admission.error().message, "the reader has gone");
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(queue->waiting(), 0U);
}

// ---- origins that are busy

TEST_F(RequestQueueTest, ClosedOriginAdmitsNoneBeforeItsTime) {
  for (const int status : {429, 503}) {
    use(0);
    enter().turn->record(status, milliseconds(2'500));
    const auto closed = enter();
    EXPECT_EQ(closed.turn, nullptr);
    EXPECT_EQ(closed.status, status);
    EXPECT_EQ(closed.left, milliseconds(2'500));
    EXPECT_NE(enter("https://b:443").turn, nullptr);
    time = time.load() + milliseconds(2'499);
    EXPECT_EQ(enter().left, milliseconds(1));
    time = time.load() + milliseconds(1);
    EXPECT_NE(enter().turn, nullptr);
  }
}

TEST_F(RequestQueueTest, RequestsThatWaitEndWhenTheOriginCloses) {
  use(1);
  const TurnPtr held = enter().turn;
  auto waits = std::async(std::launch::async, [&] { return enter(); });
  while (queue->waiting() == 0) std::this_thread::yield();
  held->record(429, seconds(5));
  const auto admission = waits.get();
  EXPECT_EQ(admission.turn, nullptr);
  EXPECT_EQ(admission.left, seconds(5));
}

TEST_F(RequestQueueTest, BusyOriginBeginsWithOneRequestAndGetsMoreWithEachAnswer) {
  use(0);
  TurnPtr old = enter().turn;  // sent before, and not counted afterwards
  enter().turn->record(503, std::nullopt);
  TurnPtr first = enter().turn;
  ASSERT_NE(first, nullptr);
  wait_as("second", Urgency::waited_for);
  old->record(200, std::nullopt);  // of before: it does not show that the server has time
  EXPECT_EQ(queue->waiting(), 1U);
  first->record(206, std::nullopt);  // the answer has begun, and a second one is permitted
  threads.clear();
  EXPECT_THAT(order, ElementsAre("second"));
  const TurnPtr second = enter().turn;
  wait_as("third", Urgency::waited_for);
  second->record(500, std::nullopt);  // neither busy nor answered
  EXPECT_EQ(queue->waiting(), 1U);
  second->record(404, std::nullopt);
  threads.clear();
}

TEST_F(RequestQueueTest, AnotherRefusalBeginsAgain) {
  use(0);
  enter().turn->record(429, seconds(1));
  time = time.load() + seconds(1);
  TurnPtr first = enter().turn;
  first->record(200, std::nullopt);
  first->record(200, std::nullopt);
  TurnPtr second = enter().turn;
  second->record(429, seconds(1));
  time = time.load() + seconds(1);
  const TurnPtr third = enter().turn;
  ASSERT_NE(third, nullptr);
  wait_as("fourth", Urgency::waited_for);
  EXPECT_EQ(queue->waiting(), 1U);
  third->record(200, std::nullopt);
  threads.clear();
}

TEST_F(RequestQueueTest, LimitThatHasGrownEnds) {
  use(4);
  enter().turn->record(503, std::nullopt);
  for (int i = 0; i < 3; ++i) enter().turn->record(200, std::nullopt);
  std::vector<TurnPtr> turns;
  for (int i = 0; i < 4; ++i) turns.push_back(enter().turn);
  EXPECT_THAT(turns, ::testing::Each(::testing::NotNull()));
}

// One response must not take a server away for a day.
TEST_F(RequestQueueTest, OriginIsClosedForAnHourAtMost) {
  use(0);
  enter().turn->record(503, std::chrono::hours(24));
  EXPECT_EQ(enter().left, RequestQueue::kMaxClosed);
  enter("https://b:443").turn->record(503, milliseconds(0));
  EXPECT_NE(enter("https://b:443").turn, nullptr);
}

TEST_F(RequestQueueTest, NumberOfClosedOriginsIsLimited) {
  use(0);
  for (size_t i = 0; i < 2 * RequestQueue::kMaxOrigins; ++i)
    enter(std::to_string(i)).turn->record(429, seconds(1 + static_cast<int>(i)));
  EXPECT_EQ(enter(std::to_string(2 * RequestQueue::kMaxOrigins - 1)).turn, nullptr);
  EXPECT_NE(enter("0").turn, nullptr);  // forgotten
}

}  // namespace
}  // namespace weightfs::http::request_queue_test
