// The turns of requests of a client, against a server: origins that are closed, redirects, tokens, and the rate.
#include <fmt/core.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "cache/direct_client.h"
#include "cache/download/mirror_scheduler.h"
#include "cache/download/remote_file.h"
#include "cache/download/request_with_retry.h"
#include "tests/cache/http_fixture.h"

namespace weightfs::turns_test {
namespace {

using namespace http;
using namespace http_fixture;
using download::send_request;
using ::testing::HasSubstr;

std::string sent(Client& http, const std::string& url) {
  return describe(send_request(http, get(url), 100, kNeverStop));
}

TEST(Turns, NoMoreRequestsThanPermittedReachTheServer) {
  std::atomic<int> running = 0, most = 0;
  HttpServer server([&](const SeenRequest&, Wire& wire) {
    const int now = ++running;
    for (int seen = most; now > seen && !most.compare_exchange_weak(seen, now);) {
    }
    wire.pause(std::chrono::milliseconds(5));
    --running;
    wire.send(answer("200 OK", "x"));
  });
  Options options = private_allowed();
  options.connections = 2;
  DirectClient http(options);
  std::vector<std::jthread> readers;
  for (int i = 0; i < 12; ++i) readers.emplace_back([&] { EXPECT_EQ(sent(http, server.url("/")), "200 x"); });
  readers.clear();
  EXPECT_LE(most, 2);
  EXPECT_EQ(server.requests().size(), 12U);
}

TEST(Turns, RequestToAClosedOriginIsDeferredAndNotSent) {
  HttpServer busy(always(answer("429 Too Many Requests", "slowly", {"Retry-After: 3600"})));
  HttpServer other(always(answer("200 OK", "x")));
  DirectClient http(quick());
  EXPECT_EQ(sent(http, busy.url("/a")), "429 slowly");
  const auto page = send_request(http, get(busy.url("/b")), 100, kNeverStop);
  ASSERT_EQ(describe(page), "429 ");
  EXPECT_TRUE(page->head.is_deferred);
  EXPECT_EQ(page->head.url, busy.url("/b"));
  EXPECT_EQ(page->head.header("retry-after"), "3600");
  EXPECT_EQ(sent(http, other.url("/")), "200 x");
  EXPECT_EQ(busy.requests().size(), 1U);
}

TEST(Turns, DeferredRequestIsNoAttempt) {
  DirectClient http{Options()};
  const Error busy{Code::network, "busy"};
  download::Backoff once({.retries = 0}, http);
  EXPECT_EQ(once.pause(busy, std::chrono::seconds(2), download::Backoff::Attempt::deferred)
                .value_or(std::chrono::milliseconds(0)),
            std::chrono::seconds(2));
  EXPECT_FALSE(once.pause(busy, std::chrono::seconds(2), download::Backoff::Attempt::deferred));  // counted now
  download::Backoff sent_once({.retries = 0}, http);
  EXPECT_FALSE(sent_once.pause(busy, std::chrono::seconds(2)));
  download::Backoff long_delay({}, http);
  EXPECT_FALSE(long_delay.pause(busy, std::chrono::seconds(3600), download::Backoff::Attempt::deferred));
}

// The origin of the redirect is closed; that of the URL is not.
TEST(Turns, RedirectWaitsForTheOriginThatItLeadsTo) {
  HttpServer target([&](const SeenRequest&, Wire& wire) { wire.send(answer("503 No", "", {"Retry-After: 60"})); });
  HttpServer server([&](const SeenRequest& request, Wire& wire) {
    wire.send(request.target == "/moved" ? answer("302 Found", "", {"Location: " + target.url("/x")})
                                         : answer("200 OK", "x"));
  });
  DirectClient http(quick());
  EXPECT_EQ(sent(http, server.url("/moved")), "503 ");
  EXPECT_EQ(sent(http, server.url("/moved")), "503 ");
  EXPECT_EQ(sent(http, server.url("/here")), "200 x");
  EXPECT_EQ(target.requests().size(), 1U);
  EXPECT_EQ(server.requests().size(), 3U);
}

// A token from the same server: the request for it must not wait for the turn of the request that needs it.
class TokenOfServer final : public Credentials {
 public:
  TokenOfServer(Client& http, std::string url) : http_(http), url_(std::move(url)) {}
  Result<void> prepare(const std::stop_token& stop) override { return fetch(stop); }
  std::string authorization() override {
    const std::scoped_lock lock(mutex_);
    return token_;
  }
  Result<bool> on_unauthorized(const Response&, const SentKeys&, const std::stop_token& stop) override {
    TRY_VOID(fetch(stop));
    return true;
  }

 private:
  Result<void> fetch(const std::stop_token& stop) {
    const auto page = TRY(send_request(http_, get(url_), 100, stop));
    const std::scoped_lock lock(mutex_);
    token_ = "Bearer " + page.body + std::to_string(++count_);
    return {};
  }

  Client& http_;
  const std::string url_;
  std::mutex mutex_;
  std::string token_;
  int count_ = 0;
};

TEST(Turns, RequestForATokenDoesNotWaitForTheRequestThatNeedsIt) {
  HttpServer server([](const SeenRequest& request, Wire& wire) {
    if (request.target == "/token") return void(wire.send(answer("200 OK", "t")));
    const bool is_second = request.header("authorization") != "Bearer t1";
    wire.send(is_second ? answer("200 OK", "x") : answer("401 No", "", {"WWW-Authenticate: Bearer"}));
  });
  Options options = quick();
  options.connections = 1;
  DirectClient http(options);
  Request request = get(server.url("/m"));
  request.credentials = std::make_shared<TokenOfServer>(http, server.url("/token"));
  EXPECT_EQ(describe(send_request(http, request, 100, kNeverStop)), "200 x");
}

// A token that its server does not send.
class TokenOfBusyServer final : public Credentials {
 public:
  TokenOfBusyServer(Client& http, std::string url) : http_(http), url_(std::move(url)) {}
  Result<bool> on_unauthorized(const Response&, const SentKeys&, const std::stop_token& stop) override {
    TRY(download::request_keys_with_retry(http_, get(url_), 100, stop));
    return true;
  }

 private:
  Client& http_;
  const std::string url_;
};

TEST(Turns, RequestForATokenIsNotRepeatedAfterTheDeadline) {
  HttpServer server([](const SeenRequest& request, Wire& wire) {
    wire.send(request.target == "/token" ? answer("503 No", "") : answer("401 No", "", {"WWW-Authenticate: Bearer"}));
  });
  Options options = quick();
  options.max_retries = 8;
  DirectClient http(options);
  Request request = get(server.url("/m"));
  request.credentials = std::make_shared<TokenOfBusyServer>(http, server.url("/token"));
  request.deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(500);
  const auto page = send_request(http, request, 100, kNeverStop);
  ASSERT_FALSE(page);
  EXPECT_EQ(page.error().code, Code::network);
  EXPECT_LT(server.count("GET", "/token"), 9U);
}

TEST(Turns, CancelledRequestIsNotSent) {
  std::stop_source stop;
  HttpServer server([&](const SeenRequest&, Wire& wire) { wire.stall(); });
  Options options = quick();
  options.stall_timeout = std::chrono::hours(1);
  options.connections = 1;
  DirectClient http(options);
  std::vector<std::jthread> readers;
  for (int i = 0; i < 2; ++i)
    readers.emplace_back([&] {
      EXPECT_THAT(describe(send_request(http, get(server.url("/")), 9, stop.get_token())), HasSubstr("cancelled"));
    });
  while (server.requests().empty()) std::this_thread::yield();
  stop.request_stop();
  readers.clear();
  EXPECT_EQ(server.requests().size(), 1U);
}

// ---- the rate

// Bytes that have arrived wait for their time: here forever.
TEST(Rate, WaitOfBytesIsCancelled) {
  std::stop_source stop;
  HttpServer server([&](const SeenRequest&, Wire& wire) {
    wire.send(answer("200 OK", std::string(4'096, 'x')));
    stop.request_stop();
  });
  Options options = quick();
  options.limit_rate = 1;
  DirectClient http(options);
  EXPECT_THAT(describe(send_request(http, get(server.url("/")), 10'000, stop.get_token())), HasSubstr("cancelled"));
}

TEST(Rate, AllBytesArrive) {
  const std::string body(300'000, 'x');
  HttpServer server(always(answer("200 OK", body)));
  Options options = quick();
  options.limit_rate = 3'000'000;
  DirectClient http(options);
  EXPECT_EQ(describe(send_request(http, get(server.url("/")), 1 << 20, kNeverStop)), "200 " + body);
}

}  // namespace
}  // namespace weightfs::turns_test
