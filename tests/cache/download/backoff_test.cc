// How often and when a request is repeated, and what is not asked for again.
#include <fmt/core.h>

#include <atomic>

#include "cache/direct_client.h"
#include "cache/download/mirror_scheduler.h"
#include "cache/download/request_with_retry.h"
#include "cache/http/used_up.h"
#include "tests/cache/fetch_fixture.h"

namespace weightfs::backoff_test {
namespace {

using namespace download;
using namespace fetch_fixture;
using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::EndsWith;
using ::testing::HasSubstr;

const Error kBusy{Code::network, "busy"};

// ---- Retry-After

TEST(Backoff, RetryAfterIsNotShortenedWhileTheNetworkIsWaitedFor) {
  http::DirectClient http{http::Options()};
  http.wait_for_network(seconds(600));
  Backoff backoff(RetryPolicy(), http);
  const auto pause = backoff.pause(kBusy, seconds(45));
  ASSERT_TRUE(pause) << pause.error().message;
  EXPECT_EQ(*pause, seconds(45));
}

TEST(Backoff, RetryAfterTheWaitFailsAtOnceWithTheReason) {
  http::DirectClient http{http::Options()};
  for (const seconds patience : {seconds(0), seconds(2), seconds(600)}) {
    http.wait_for_network(patience);
    Backoff backoff(RetryPolicy(), http);
    const auto pause = backoff.pause(kBusy, seconds(3600));
    ASSERT_FALSE(pause);
    EXPECT_EQ(pause.error().message, "busy, retry after 3600 s");
    const auto deferred = backoff.pause(kBusy, seconds(3599), Backoff::Attempt::deferred);
    ASSERT_FALSE(deferred);
    EXPECT_THAT(deferred.error().message, testing::Not(testing::HasSubstr("359"))) << "another line each second";
  }
}

// The time for the network does not shorten what is permitted without it.
TEST(Backoff, ShortWaitForTheNetworkPermitsTheUsualDelay) {
  http::DirectClient http{http::Options()};
  http.wait_for_network(seconds(2));
  EXPECT_EQ(Backoff(RetryPolicy(), http).pause(kBusy, seconds(30)).value_or(milliseconds(0)), seconds(30));
}

// ---- requests to an API

std::string sent(HttpServer& server, int retries) {
  http::DirectClient http{http::Options{.max_retries = retries}};
  const auto page = request_with_retry(http, {.url = server.url("/api")}, 1 << 20, kNeverStop);
  return page ? fmt::format("{} {}", page->head.status, page->body) : page.error().message;
}

TEST(ApiRequest, IsRepeatedAsOftenAsTheUserPermits) {
  for (const int retries : {0, 1, 4}) {
    HttpServer server(always(answer("503 No", "")));
    EXPECT_THAT(sent(server, retries), EndsWith("/api: status 503"));
    EXPECT_EQ(server.requests().size(), static_cast<size_t>(retries) + 1);
  }
}

constexpr const char* kTimeoutOfStore = "<Error><Code>RequestTimeout</Code><Message>slow</Message></Error>";

TEST(ApiRequest, TimeoutOfAnObjectStoreIsRepeated) {
  HttpServer server(first({answer("400 Bad Request", kTimeoutOfStore)}));
  EXPECT_THAT(sent(server, 1), EndsWith(kBody));
  EXPECT_EQ(server.requests().size(), 2u);
  HttpServer other(first({answer("400 Bad Request", "<Error><Code>RequestTimeTooSkewed</Code></Error>")}));
  EXPECT_THAT(sent(other, 1), HasSubstr("400 "));
  EXPECT_EQ(other.requests().size(), 1u);
}

// A request that needs the token is not repeated, either: that would ask for the token again.
TEST(ApiRequest, FailureThatWasRepeatedIsNotRepeatedAgain) {
  const Outcome outcome = outcome_of(given_up(kBusy));
  EXPECT_EQ(outcome.next, Outcome::Next::give_up);
  EXPECT_EQ(outcome.error.message, "busy");
  EXPECT_EQ(outcome.error.name, nullptr);
  EXPECT_EQ(outcome_of(kBusy).next, Outcome::Next::retry_later);
}

// ---- ranges of an object

TEST(RangeOfObject, TimeoutOfTheStoreIsRepeated) {
  for (const bool is_timeout : {true, false}) {
    HttpServer server(first({answer("400 Bad Request", is_timeout ? kTimeoutOfStore : "<Error/>")}));
    Origin origin{.url = server.url("/m")};
    origin.error_text = [](std::string_view body) { return std::string(body); };
    RemoteFile file(std::make_shared<http::DirectClient>(http::Options()), "model", {origin}, kSize, quick_retries());
    EXPECT_EQ(fetched(file).bytes.size(), is_timeout ? kSize : 0);
    EXPECT_EQ(server.requests().size(), is_timeout ? 2u : 1u);
  }
}

// ---- used up

TEST(UsedUpUrls, AreNotRequestedAgain) {
  HttpServer server(always(answer("503 No", "")));
  RetryPolicy policy = quick_retries();
  policy.used_up = std::make_shared<http::UsedUp>();
  const std::string reason = "model: " + server.url("/m") + ": 503 Service Unavailable";
  EXPECT_EQ(fetched(*file_at(kSize, {server.url("/m")}, policy)).error->message, reason);
  EXPECT_EQ(server.requests().size(), 4u);
  EXPECT_EQ(fetched(*file_at(kSize, {server.url("/m")}, policy)).error->message, reason);
  EXPECT_EQ(server.requests().size(), 4u);
  EXPECT_EQ(fetched(*file_at(kSize, {server.url("/other")}, policy)).error->code, Code::network);
  EXPECT_EQ(server.requests().size(), 8u);
  EXPECT_EQ(fetched(*file_at(kSize, {server.url("/m")})).error->code, Code::network);  // in a mount
  EXPECT_EQ(server.requests().size(), 12u);
}

TEST(UsedUpUrls, OtherOriginsAreAskedAtOnce) {
  HttpServer bad(always(answer("503 No", "")));
  HttpServer good(serves(kBody));
  RetryPolicy policy = quick_retries();
  policy.used_up = std::make_shared<http::UsedUp>();
  EXPECT_TRUE(fetched(*file_at(kSize, {bad.url("/m")}, policy)).error);
  EXPECT_EQ(fetched(*file_at(kSize, {bad.url("/m"), good.url("/m")}, policy)).text(), describe(kBody));
  EXPECT_EQ(bad.requests().size(), 4u);
}

TEST(UsedUpUrls, RefusalsAndAnswersAreNotAmongThem) {
  HttpServer missing(always(answer("404 No", "")));
  HttpServer busy_once(first({answer("503 No", "")}));
  RetryPolicy policy = quick_retries();
  policy.used_up = std::make_shared<http::UsedUp>();
  for (size_t i = 1; i <= 2; ++i) {
    EXPECT_EQ(fetched(*file_at(kSize, {missing.url("/m")}, policy)).error->code, Code::not_found);
    EXPECT_EQ(missing.requests().size(), i);
    EXPECT_EQ(fetched(*file_at(kSize, {busy_once.url("/m")}, policy)).text(), describe(kBody));
  }
}

// The requests of one command to an API.
class ApiOfCommand {
 public:
  // The status and the error of a request.
  std::string sent(const std::string& url) {
    const auto page = request_with_retry(http_, {.url = url}, 1 << 20, kNeverStop);
    return page ? std::to_string(page->head.status) : page.error().message;
  }
  std::string keys_from(const std::string& url) {
    const auto page = request_keys_with_retry(http_, {.url = url}, 1 << 20, kNeverStop);
    return page ? std::to_string(page->head.status) : page.error().message;
  }

 private:
  http::DirectClient http_{http::Options{.max_retries = 1, .used_up = std::make_shared<http::UsedUp>()}};
};

// Another name may be answered: that of a busy service.
TEST(UsedUpUrls, BusyUrlOfAnApiIsNotRequestedAgain) {
  HttpServer server(always(answer("503 No", "")));
  ApiOfCommand command;
  for (int i = 0; i < 3; ++i) EXPECT_THAT(command.sent(server.url("/api")), EndsWith("/api: status 503"));
  EXPECT_EQ(server.requests().size(), 2u);
  EXPECT_THAT(command.sent(server.url("/other")), EndsWith("/other: status 503"));
  EXPECT_EQ(server.requests().size(), 4u);
  ApiOfCommand next;
  EXPECT_THAT(next.sent(server.url("/api")), EndsWith("/api: status 503"));
  EXPECT_EQ(server.requests().size(), 6u);
}

// It answered once, so it is expected to answer again.
TEST(UsedUpUrls, ServerOfAnApiThatDoesNotRespondIsNotRequestedAgain) {
  const auto hangs_up = [count = std::make_shared<std::atomic<size_t>>(0)](const SeenRequest& request, Wire& wire) {
    if ((*count)++ == 0) return serve_file(request, wire, kBody);
    wire.close();
  };
  HttpServer server(hangs_up);
  ApiOfCommand command;
  EXPECT_EQ(command.sent(server.url("/first")), "200");
  const std::string reason = command.sent(server.url("/second"));
  const size_t requests = server.requests().size();
  EXPECT_GT(requests, 2u);
  EXPECT_EQ(command.sent(server.url("/third")), reason);
  EXPECT_EQ(command.sent(server.url("/first")), reason);
  EXPECT_EQ(server.requests().size(), requests);
}

// They expire while a command lives, so one failure to renew them must not be the last attempt.
TEST(UsedUpUrls, KeysAreRequestedAgain) {
  HttpServer server(first({answer("503 No", ""), answer("503 No", "")}));
  ApiOfCommand command;
  EXPECT_THAT(command.keys_from(server.url("/token")), EndsWith("/token: status 503"));
  EXPECT_EQ(server.requests().size(), 2u);
  EXPECT_EQ(command.keys_from(server.url("/token")), "200");
  HttpServer busy(always(answer("503 No", "")));
  EXPECT_THAT(command.sent(busy.url("/token")), EndsWith("/token: status 503"));
  EXPECT_THAT(command.keys_from(busy.url("/token")), EndsWith("/token: status 503"));
  EXPECT_EQ(busy.requests().size(), 4u);
}

TEST(UsedUpUrls, RefusalsOfAnApiAreNotAmongThem) {
  HttpServer server(always(answer("404 No", "")));
  ApiOfCommand command;
  for (size_t i = 1; i <= 2; ++i) {
    EXPECT_EQ(command.sent(server.url("/api")), "404");
    EXPECT_EQ(server.requests().size(), i);
  }
}

TEST(UsedUpUrls, TheirNumberIsLimited) {
  http::UsedUp used_up;
  for (size_t i = 0; i <= http::UsedUp::kMaxUrls; ++i) used_up.add(std::to_string(i), kBusy);
  EXPECT_TRUE(used_up.find("0"));
  EXPECT_FALSE(used_up.find(std::to_string(http::UsedUp::kMaxUrls)));
  used_up.remove("0");
  EXPECT_FALSE(used_up.find("0"));
}

}  // namespace
}  // namespace weightfs::backoff_test
