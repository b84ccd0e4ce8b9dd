#include "protocols/s3/user_keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "protocols/s3/signer.h"
#include "tests/support/eventually.h"
#include "tests/support/scripted_client.h"

namespace weightfs::s3::s3_user_keys_test {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

Settings with_keys(const std::string& id) {
  Settings settings;
  settings.keys = Keys{id, "secret", ""};
  return settings;
}

class UserKeysTest : public ::testing::Test {
 protected:
  std::string id() { return keys_.current().keys->id; }

  Result<Settings> file_ = with_keys("first");
  int reads_ = 0;
  UserKeys keys_{with_keys("first"), [this] {
                   ++reads_;
                   return file_;
                 }};
  const UserKeys::Clock::time_point now_ = UserKeys::Clock::now();
};

TEST_F(UserKeysTest, RefusedKeysAreReadAgain) {
  const uint64_t first = keys_.current().generation;
  file_ = with_keys("second");
  EXPECT_EQ(id(), "first");
  EXPECT_TRUE(keys_.renew(first, now_));
  EXPECT_EQ(id(), "second");
  EXPECT_EQ(keys_.current().generation, first + 1);
}

// Many requests with the old keys are refused at once.
TEST_F(UserKeysTest, KeysThatWereReadSinceAreNotReadAgain) {
  file_ = with_keys("second");
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(keys_.renew(1, now_));
  EXPECT_EQ(reads_, 1);
}

TEST_F(UserKeysTest, SameKeysAreReadEveryTenSeconds) {
  EXPECT_FALSE(keys_.renew(1, now_));
  file_ = with_keys("second");
  EXPECT_FALSE(keys_.renew(1, now_ + seconds(9)));
  EXPECT_EQ(reads_, 1);
  EXPECT_TRUE(keys_.renew(1, now_ + seconds(10)));
}

TEST_F(UserKeysTest, FileThatIsBeingWrittenChangesNothing) {
  file_ = failure(Code::unsupported, "incomplete");
  EXPECT_FALSE(keys_.renew(1, now_));
  EXPECT_EQ(id(), "first");
  file_ = Settings();
  EXPECT_TRUE(keys_.renew(1, now_ + seconds(10)));
  EXPECT_FALSE(keys_.current().keys);
}

// A source whose keys are set by a test.
class FakeSource final : public KeySource {
 public:
  Result<TimedKeys> obtain(http::Client& /*client*/, const std::stop_token& /*stop*/) const override {
    ++asked;
    while (!is_open) std::this_thread::yield();
    return next;
  }
  std::string name() const override { return "fake"; }
  bool is_optional() const override { return may_lack_keys; }

  void give(const std::string& id, std::optional<UserKeys::Clock::time_point> expiry = std::nullopt) {
    next = TimedKeys{Keys{id, "secret", ""}, expiry};
  }

  Result<TimedKeys> next = TimedKeys();
  bool may_lack_keys = false;
  mutable std::atomic<int> asked = 0;
  std::atomic<bool> is_open = true;  // else obtain() does not return
};

class RenewedKeysTest : public ::testing::Test {
 protected:
  Settings settings() {
    Settings settings;
    settings.key_source = source_;
    return settings;
  }
  // The id, or the error.
  std::string id(UserKeys::Clock::time_point now) {
    const auto found = keys_.get(client_, now, {});
    if (!found) return found.error().message;
    return found->keys ? found->keys->id : "none";
  }
  int asked() const { return source_->asked; }

  const std::shared_ptr<FakeSource> source_ = std::make_shared<FakeSource>();
  const http::ClientPtr client_ =
      std::make_shared<test::ScriptedClient>([](const http::Request&) { return test::page(500, ""); });
  UserKeys keys_{settings(), [this] { return Result<Settings>(settings()); }};
  const UserKeys::Clock::time_point now_ = UserKeys::Clock::now();
};

TEST_F(RenewedKeysTest, KeysAreObtainedByTheFirstRequestAndKept) {
  source_->give("first", now_ + hours(6));
  EXPECT_FALSE(keys_.current().keys);
  EXPECT_EQ(keys_.current().origin, http::KeyOrigin());
  EXPECT_EQ(id(now_), "first");
  EXPECT_EQ(id(now_ + hours(5)), "first");
  EXPECT_EQ(asked(), 1);
  EXPECT_EQ(keys_.current().origin.from, "fake");
  EXPECT_EQ(keys_.current().expiry, now_ + hours(6));
}

TEST_F(RenewedKeysTest, KeysAreRenewedFifteenMinutesBeforeTheirEnd) {
  source_->give("first", now_ + hours(6));
  EXPECT_EQ(id(now_), "first");
  source_->give("second", now_ + hours(12));
  EXPECT_EQ(id(now_ + hours(6) - minutes(16)), "first");
  EXPECT_EQ(asked(), 1);
  id(now_ + hours(6) - minutes(14));
  EXPECT_TRUE(test::eventually([&] { return keys_.current().keys->id == "second"; }));
  EXPECT_EQ(asked(), 2);
}

TEST_F(RenewedKeysTest, KeysOfAShortLifeAreNotRenewedAtEachRequest) {
  source_->give("first", now_ + minutes(15));
  EXPECT_EQ(id(now_), "first");
  EXPECT_EQ(id(now_ + minutes(9)), "first");
  EXPECT_EQ(asked(), 1);
  source_->give("second", now_ + minutes(30));
  id(now_ + minutes(11));
  EXPECT_TRUE(test::eventually([&] { return keys_.current().keys->id == "second"; }));
}

// With a source that does not answer.
TEST_F(RenewedKeysTest, NothingWaitsForARenewalWhileKeysAreValid) {
  source_->give("first", now_ + hours(1));
  EXPECT_EQ(id(now_), "first");
  source_->give("second", now_ + hours(2));
  source_->is_open = false;
  for (int i = 0; i < 5; ++i) EXPECT_EQ(id(now_ + minutes(50)), "first");
  EXPECT_TRUE(test::eventually([&] { return asked() == 2; }));
  source_->is_open = true;
  EXPECT_TRUE(test::eventually([&] { return id(now_ + minutes(50)) == "second"; }));
  EXPECT_EQ(asked(), 2);
}

TEST_F(RenewedKeysTest, RequestsWaitTogetherWithoutValidKeys) {
  source_->give("first", now_ + hours(1));
  source_->is_open = false;
  std::vector<std::string> seen(4);
  {
    std::vector<std::jthread> readers;
    for (std::string& each : seen) readers.emplace_back([&] { each = id(now_); });
    EXPECT_TRUE(test::eventually([&] { return asked() == 1; }));
    source_->is_open = true;
  }
  EXPECT_EQ(seen, std::vector<std::string>(4, "first"));
  EXPECT_EQ(asked(), 1);
}

// Each attempt may take as long as all of its retries. The second request may also come after the first has failed.
TEST_F(RenewedKeysTest, RequestThatWaitsForAFailedAttemptFailsWithIt) {
  source_->next = failure(Code::network, "fake: down");
  const auto attempts_of_two = [&] {
    UserKeys keys(settings(), [this] { return Result<Settings>(settings()); });
    const int before = asked();
    source_->is_open = false;
    std::atomic<bool> has_begun = false;
    const std::jthread first([&] { EXPECT_FALSE(keys.get(client_, now_, {})); });
    EXPECT_TRUE(test::eventually([&] { return asked() > before; }));
    std::jthread second([&] {
      has_begun = true;
      EXPECT_FALSE(keys.get(client_, now_ + minutes(1), {}));
    });
    while (!has_begun) std::this_thread::yield();
    source_->is_open = true;
    second.join();
    return asked() - before;
  };
  EXPECT_TRUE(test::eventually([&] { return attempts_of_two() == 1; }));
}

TEST_F(RenewedKeysTest, FailureOfAnInterruptedRequestIsNotThatOfOthers) {
  source_->next = failure(Code::network, "fake: cancelled");
  std::stop_source stop;
  stop.request_stop();
  EXPECT_FALSE(keys_.get(client_, now_, stop.get_token()));
  source_->give("first", now_ + hours(1));
  EXPECT_EQ(id(now_), "first");
}

TEST_F(RenewedKeysTest, FailureOfTheNetworkIsGivenUp) {
  const auto keys = std::make_shared<UserKeys>(settings(), [this] { return Result<Settings>(settings()); });
  Signer signer(keys, "r", client_);
  source_->next = failure(Code::network, "fake: down");
  const auto prepared = signer.prepare({});
  ASSERT_FALSE(prepared);
  EXPECT_TRUE(is_given_up(prepared.error()));
  EXPECT_EQ(prepared.error().message, "fake: down");
}

TEST_F(RenewedKeysTest, ExpiredKeysAreNotUsedIfTheirRenewalFails) {
  source_->give("first", now_ + hours(1));
  EXPECT_EQ(id(now_), "first");
  source_->next = failure(Code::network, "fake: down");
  EXPECT_EQ(id(now_ + hours(1) - seconds(30)), "first");
  EXPECT_EQ(keys_.current().note, "fake: down");
  EXPECT_EQ(id(now_ + hours(1)), "fake: down");
  EXPECT_EQ(asked(), 3);
  EXPECT_EQ(id(now_ + hours(1) + seconds(1)), "fake: down");
  EXPECT_EQ(asked(), 3) << "it was asked a second ago";
  source_->give("second", now_ + hours(2));
  EXPECT_EQ(id(now_ + hours(1) + seconds(3)), "second");
  EXPECT_EQ(keys_.current().note, "");
}

TEST_F(RenewedKeysTest, KeysThatHaveExpiredWhenTheyComeAreAFailure) {
  source_->give("first", now_ - seconds(1));
  EXPECT_EQ(id(now_), "fake: its keys have expired");
}

TEST_F(RenewedKeysTest, OptionalSourceMayFailAndItsOldKeysAreUsed) {
  source_->may_lack_keys = true;
  source_->next = failure(Code::network, "fake: down");
  EXPECT_EQ(id(now_), "none");
  EXPECT_EQ(keys_.current().note, "fake: down");
  EXPECT_EQ(id(now_ + minutes(4)), "none");
  EXPECT_EQ(asked(), 1);
  source_->give("first", now_ + hours(1));
  id(now_ + minutes(6));
  EXPECT_TRUE(test::eventually([&] { return keys_.current().keys.has_value(); }));
  source_->next = failure(Code::network, "fake: down");
  EXPECT_EQ(id(now_ + hours(2)), "first");
  EXPECT_TRUE(test::eventually([&] { return keys_.current().note == "fake: down"; }));
  EXPECT_EQ(id(now_ + hours(3)), "first");
}

TEST_F(RenewedKeysTest, RefusedKeysAreRenewedOnce) {
  source_->give("first", now_ + hours(6));
  EXPECT_EQ(id(now_), "first");
  const uint64_t first = keys_.current().generation;
  source_->give("second", now_ + hours(6));
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(keys_.renew(first, now_ + seconds(1), client_));
  EXPECT_EQ(asked(), 2);
  const uint64_t second = keys_.current().generation;
  EXPECT_FALSE(keys_.renew(second, now_ + seconds(2), client_)) << "a second later";
  EXPECT_EQ(asked(), 2);
  EXPECT_FALSE(keys_.renew(second, now_ + seconds(12), client_)) << "the same keys";
  EXPECT_EQ(asked(), 3);
}

TEST_F(RenewedKeysTest, RenewalEndsWithItsOwner) {
  std::weak_ptr<http::Client> client;
  {
    const auto source = std::make_shared<FakeSource>();
    Settings settings;
    settings.key_source = source;
    source->give("first", now_ + minutes(10));
    const auto own = std::make_shared<test::ScriptedClient>([](const http::Request&) { return test::page(500, ""); });
    client = own;
    UserKeys keys(settings, [settings] { return Result<Settings>(settings); });
    ASSERT_TRUE(keys.get(own, now_, {}));
    ASSERT_TRUE(keys.get(own, now_ + minutes(8), {}));
  }
  EXPECT_TRUE(client.expired());
}

}  // namespace
}  // namespace weightfs::s3::s3_user_keys_test
