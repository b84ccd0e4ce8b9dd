// Several connections for one blob. The server limits each connection, so that more of them help. The tests assert
// requests, never times.
#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <set>
#include <stop_token>

#include "cache/download/download.h"
#include "cache/download/reassembly_buffer.h"
#include "tests/cache/fetch_fixture.h"

namespace weightfs {
namespace {

using namespace download;
using fetch_fixture::fetch_of;
using fetch_fixture::fetched;
using fetch_fixture::quick_retries;
using test::describe;
using test::some_bytes;

constexpr size_t kSize = 33'333'333;
const std::string& body() {
  static const std::string bytes = some_bytes(kSize);
  return bytes;
}

// About 12 MB/s, then unlimited.
void send_slowly(Wire& wire, std::string_view bytes, size_t slow = kSize) {
  for (size_t at = 0; at < std::min(slow, bytes.size()); at += 65'536)
    if (!wire.pause(std::chrono::milliseconds(5)) || !wire.send(bytes.substr(at, 65'536))) return;
  if (slow < bytes.size()) wire.send(bytes.substr((slow + 65'535) / 65'536 * 65'536));
}

struct Lies {
  std::string status = "206 Partial Content";
  std::string etag = "\"e1\"";
  uint64_t shift = 0;    // added to Content-Range
  size_t after = kSize;  // closes after this many bytes
};

void send_part(const SeenRequest& request, Wire& wire, const Lies& lies = {}) {
  const auto [from, open_to] = *request.range();
  const uint64_t to = std::min<uint64_t>(open_to, kSize);
  wire.send(fmt::format("HTTP/1.1 {}\r\nContent-Length: {}\r\nContent-Range: bytes {}-{}/{}\r\nETag: {}\r\n\r\n",
                        lies.status, to - from, from + lies.shift, to - 1 + lies.shift, kSize, lies.etag));
  send_slowly(wire, std::string_view(body()).substr(from, std::min<size_t>(to - from, lies.after)));
  if (lies.after < to - from) wire.close();
}

const std::string kOffer = "Accept-Ranges: bytes\r\nETag: \"e1\"\r\n";

void send_whole(Wire& wire, const std::string& headers = kOffer, size_t slow = kSize) {
  wire.send(fmt::format("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n{}\r\n", kSize, headers));
  send_slowly(wire, body(), slow);
}

// Long enough for a scale-up check.
constexpr size_t kBrief = 3'000'000;

HttpServer::Handler slow_server(const Lies& lies = {}, size_t slow = kSize) {
  return [=](const SeenRequest& request, Wire& wire) {
    request.range() ? send_part(request, wire, lies) : send_whole(wire, kOffer, slow);
  };
}

// Requested ranges, by start.
std::map<uint64_t, uint64_t> ranges_of(const HttpServer& server) {
  std::map<uint64_t, uint64_t> ranges;
  for (const SeenRequest& request : server.requests())
    if (const auto range = request.range()) {
      EXPECT_TRUE(ranges.emplace(range->first, std::min<uint64_t>(range->second, kSize)).second)
          << "requested twice: " << request.header("range");
    }
  return ranges;
}

TEST(FetchParallel, EveryByteAfterTruncationIsRequestedOnce) {
  HttpServer server(slow_server());
  EXPECT_EQ(fetched(kSize, {server.url("/m")}).text(), describe(body()));
  const auto ranges = ranges_of(server);
  EXPECT_EQ(server.requests().size(), ranges.size() + 1);
  ASSERT_GE(ranges.size(), 4u);
  for (auto range = ranges.begin(); range != ranges.end(); ++range) {
    const auto next = std::next(range);
    EXPECT_EQ(range->second, next == ranges.end() ? kSize : next->first);
    EXPECT_LE(range->second - range->first, ReassemblyBuffer::kChunkSize);
  }
  std::set<uint64_t> connections;
  for (const SeenRequest& request : server.requests()) connections.insert(request.connection);
  EXPECT_GE(connections.size(), 3u);
  EXPECT_LE(connections.size(), 9u);  // the first ends at the truncation
}

TEST(FetchParallel, ResumedDownloadIsParallelToo) {
  HttpServer server(slow_server());
  const auto got = fetched(*fetch_of(std::nullopt, {server.url("/m")}), {1000, server.url("/m") + " \"e1\""});
  EXPECT_EQ(got.begins_at, 1000u);
  EXPECT_EQ(got.text(), describe(body().substr(1000)));
  EXPECT_GE(server.requests().size(), 4u);
  for (const SeenRequest& request : server.requests()) EXPECT_NE(request.header("range"), "");
}

TEST(FetchParallel, ServerWithoutRangesGetsOneConnection) {
  HttpServer server([](const SeenRequest&, Wire& wire) { send_whole(wire, "", kBrief); });
  EXPECT_EQ(fetched(kSize, {server.url("/m")}).text(), describe(body()));
  EXPECT_EQ(server.requests().size(), 1u);
}

TEST(FetchParallel, MaxConnectionsOfOneIsRespected) {
  HttpServer server(slow_server({}, kBrief));
  FetchOptions options = quick_retries();
  options.max_connections = 1;
  EXPECT_EQ(fetched(*fetch_of(kSize, {server.url("/m")}, options)).text(), describe(body()));
  EXPECT_EQ(server.requests().size(), 1u);
}

// At most two connections: how many are opened before the first wrong response depends on the machine. The first is
// slow until the second has sent a request.
TEST(FetchParallel, IgnoredOrWrongRangeFallsBackToOneConnection) {
  const Lies lies[] = {{"200 OK", "\"e1\"", 0, kSize},
                       {"206 Partial Content", "\"e2\"", 0, kSize},
                       {"206 Partial Content", "\"e1\"", 1, kSize}};
  FetchOptions options = quick_retries();
  options.max_connections = 2;
  for (const Lies& lie : lies) {
    std::atomic<bool> requested = false;
    HttpServer server([&](const SeenRequest& request, Wire& wire) {
      if (request.range()) {
        requested = true;
        return send_part(request, wire, lie);
      }
      wire.send(fmt::format("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n{}\r\n", kSize, kOffer));
      size_t at = 0;
      for (; at < kSize && !requested; at += 4096)
        if (!wire.pause(std::chrono::milliseconds(1)) || !wire.send(std::string_view(body()).substr(at, 4096))) return;
      if (at < kSize) wire.send(std::string_view(body()).substr(at));
    });
    EXPECT_EQ(fetched(*fetch_of(kSize, {server.url("/m")}, options, http::Options{})).text(), describe(body()));
    EXPECT_EQ(server.requests().size(), 2u);
  }
}

TEST(FetchParallel, TruncatedChunkIsResumed) {
  HttpServer server(slow_server({"206 Partial Content", "\"e1\"", 0, 3'000'000}));
  EXPECT_EQ(fetched(kSize, {server.url("/m")}).text(), describe(body()));
  const auto ranges = ranges_of(server);
  EXPECT_TRUE(std::any_of(ranges.begin(), ranges.end(),
                          [&](const auto& range) { return ranges.count(range.first + 3'000'000) > 0; }));
}

TEST(FetchParallel, LeaderFetchesChunksThatHelpersAreDenied) {
  std::atomic<uint64_t> denied = 0;
  HttpServer server([&](const SeenRequest& request, Wire& wire) {
    if (!request.range()) return send_whole(wire);
    if (request.connection > 0 && denied++ < 2) return void(wire.send(answer("503 Enough", "")));
    send_part(request, wire);
  });
  EXPECT_EQ(fetched(kSize, {server.url("/m")}).text(), describe(body()));
  EXPECT_GE(denied, 1u);
}

TEST(FetchParallel, StalledChunkIsRequestedOverAnotherConnection) {
  std::atomic<bool> stalled = false;
  HttpServer server([&](const SeenRequest& request, Wire& wire) {
    if (!request.range()) return send_whole(wire);
    if (!stalled.exchange(true)) return wire.stall();
    send_part(request, wire);
  });
  http::Options patient;
  patient.stall_timeout = std::chrono::hours(1);
  FetchOptions options = quick_retries();
  options.reassign_after = std::chrono::milliseconds(100);
  EXPECT_EQ(fetched(*fetch_of(kSize, {server.url("/m")}, options, patient)).text(), describe(body()));
  EXPECT_TRUE(stalled);
}

TEST(FetchParallel, RedirectIsFollowedOnceForAllChunks) {
  HttpServer server([](const SeenRequest& request, Wire& wire) {
    if (request.target == "/m") return void(wire.send(answer("307 Temporary", "", {"Location: /link?signed"})));
    request.range() ? send_part(request, wire) : send_whole(wire);
  });
  EXPECT_EQ(fetched(kSize, {server.url("/m")}).text(), describe(body()));
  EXPECT_EQ(server.count("GET", "/m"), 1u);
  EXPECT_GE(server.count("GET", "/link"), 4u);
}

class Secret final : public http::Credentials {
 public:
  std::string authorization() override { return "Bearer secret"; }
  Result<bool> on_unauthorized(const http::UnauthorizedResponse&, const std::stop_token&) override { return false; }
};

TEST(FetchParallel, CredentialsAreSentOnlyToTheirOrigin) {
  HttpServer other(slow_server());
  HttpServer server([&](const SeenRequest&, Wire& wire) {
    wire.send(answer("307 Temporary", "", {"Location: " + other.url("/link")}));
  });
  const std::vector<Origin> origins = {{server.url("/m"), http::Trust::user, std::make_shared<Secret>()}};
  const auto http = std::make_shared<http::Client>(http::Options{});  // a busy machine must not cause a stall
  EXPECT_EQ(fetched(*std::make_shared<Fetch>(http, "model", kSize, origins, quick_retries())).text(), describe(body()));
  ASSERT_EQ(server.requests().size(), 1u);
  EXPECT_EQ(server.requests()[0].header("authorization"), "Bearer secret");
  EXPECT_GE(other.requests().size(), 4u);
  for (const SeenRequest& request : other.requests()) EXPECT_EQ(request.header("authorization"), "");
}

TEST(FetchParallel, ExpiredRedirectsAreResolvedAgain) {
  std::atomic<int> links = 0;
  std::mutex mutex;
  std::map<std::string, int> uses;
  HttpServer server([&](const SeenRequest& request, Wire& wire) {
    if (request.target == "/m")
      return void(wire.send(answer("302 Found", "", {fmt::format("Location: /link{}", ++links)})));
    {
      const std::scoped_lock lock(mutex);
      if (++uses[request.target] > 3) return void(wire.send(answer("403 Expired", "")));
    }
    request.range() ? send_part(request, wire) : send_whole(wire);
  });
  EXPECT_EQ(fetched(kSize, {server.url("/m")}).text(), describe(body()));
  EXPECT_GE(server.count("GET", "/m"), 2u);
}

TEST(FetchParallel, AnotherOriginCompletesParallelDownload) {
  std::atomic<uint64_t> parts = 0;
  HttpServer dying([&](const SeenRequest& request, Wire& wire) {
    if (!request.range()) return send_whole(wire);
    if (parts++ >= 3) return void(wire.send(answer("404 Gone", "")));
    send_part(request, wire);
  });
  HttpServer good(slow_server());
  EXPECT_EQ(fetched(kSize, {dying.url("/m"), good.url("/m")}).text(), describe(body()));
  EXPECT_GE(good.requests().size(), 1u);
  EXPECT_NE(good.requests()[0].header("range"), "");
}

TEST(FetchParallel, DestroyedStreamClosesAllConnections) {
  std::atomic<int> serving = 0;
  test::Gate several;
  HttpServer server([&](const SeenRequest& request, Wire& wire) {
    if (++serving == 4) several.open();
    request.range() ? send_part(request, wire) : send_whole(wire);
  });
  const auto fetch = fetch_of(kSize, {server.url("/m")});
  auto stream = fetch->begin({}, {});
  std::byte one{};
  ASSERT_EQ((*stream)->next(std::span(&one, 1)), size_t{1});
  several.wait();
  stream->reset();
  const size_t requested = server.requests().size();
  EXPECT_LT(requested, 12u);
  EXPECT_EQ(fetch.use_count(), 1);
}

}  // namespace
}  // namespace weightfs
