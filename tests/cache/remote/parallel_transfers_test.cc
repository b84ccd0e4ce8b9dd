// Several connections for one blob. The tests assert requests, never times.
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <set>
#include <stop_token>

#include "cache/blob_store.h"
#include "cache/direct_client.h"
#include "tests/cache/fetch_fixture.h"
#include "tests/support/eventually.h"
#include "tests/support/temporary.h"

namespace weightfs::test::parallel_transfers_test {
namespace {

using fetch_fixture::quick_retries;

constexpr size_t kSize = 33'333'333;
const std::string& body() {
  static const std::string bytes = some_bytes(kSize);
  return bytes;
}

// About 12 MB/s, so that the transfers overlap.
void send_slowly(Wire& wire, std::string_view bytes) {
  for (size_t at = 0; at < bytes.size(); at += 65'536)
    if (!wire.pause(std::chrono::milliseconds(5)) || !wire.send(bytes.substr(at, 65'536))) return;
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

void send_whole(Wire& wire) {
  wire.send(fmt::format("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n{}\r\n", kSize, kOffer));
  send_slowly(wire, body());
}

HttpServer::Handler slow_server(const Lies& lies = {}) {
  return [=](const SeenRequest& request, Wire& wire) {
    request.range() ? send_part(request, wire, lies) : send_whole(wire);
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

// The blob as a reader gets it: downloaded from these URLs, and verified.
class ParallelTransfers : public testing::Test {
 protected:
  std::string downloaded(const std::vector<std::string>& urls, http::Options http = {}, StoreTimes times = {}) const {
    StoreOptions options{.directory = temporary.path("cache"), .quota = 1 << 30, .times = times};
    options.fetching.http = std::make_shared<http::DirectClient>(http);
    options.fetching.options = quick_retries();
    options.fetching.verify_whole = true;
    const BlobStorePtr store = blob_store(std::move(options));
    std::vector<download::Origin> origins;
    for (const std::string& url : urls) origins.push_back({url, http::Trust::user});
    const BlobRef ref{.name = "model", .digest = sha256(body()), .size = kSize};
    const auto resolved = store->resolve_from(ref, origins);
    if (!resolved) return resolved.error().message;
    std::string bytes(kSize, '\0');
    const auto done = resolved->verified->read(0, std::as_writable_bytes(std::span(bytes)));
    return done ? describe(bytes) : "error: " + done.error().message;
  }

  TemporaryDirectory temporary;
};

TEST_F(ParallelTransfers, EveryByteIsRequestedOnce) {
  HttpServer server(slow_server());
  EXPECT_EQ(downloaded({server.url("/m")}), describe(body()));
  const auto ranges = ranges_of(server);
  EXPECT_EQ(server.requests().size(), ranges.size());
  ASSERT_GE(ranges.size(), 4u);
  for (auto range = ranges.begin(); range != ranges.end(); ++range) {
    const auto next = std::next(range);
    EXPECT_EQ(range->second, next == ranges.end() ? kSize : next->first);
  }
  std::set<uint64_t> connections;
  for (const SeenRequest& request : server.requests()) connections.insert(request.connection);
  EXPECT_GE(connections.size(), 3u);
  EXPECT_LE(connections.size(), 8u);
}

TEST_F(ParallelTransfers, ServerWithoutRangesSendsTheFileOnce) {
  HttpServer server([](const SeenRequest&, Wire& wire) {
    wire.send(fmt::format("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{}", kSize, body()));
  });
  EXPECT_EQ(downloaded({server.url("/m")}), describe(body()));
  EXPECT_EQ(server.requests().size(), 1u);
}

TEST_F(ParallelTransfers, ServerWithWrongRangesIsAskedForTheWholeFile) {
  HttpServer server(slow_server({.shift = 1}));
  EXPECT_EQ(downloaded({server.url("/m")}), describe(body()));
  EXPECT_EQ(server.requests().size(), 2u);
}

TEST_F(ParallelTransfers, TruncatedPartIsResumed) {
  HttpServer server(slow_server({.after = 3'000'000}));
  EXPECT_EQ(downloaded({server.url("/m")}), describe(body()));
  const auto ranges = ranges_of(server);
  EXPECT_TRUE(ranges.contains(3'000'000));
}

TEST_F(ParallelTransfers, ServerThatAllowsOneConnectionIsUsedWithOne) {
  std::atomic<int> active = 0;
  std::atomic<uint64_t> denied = 0;
  HttpServer server([&](const SeenRequest& request, Wire& wire) {
    // The client may have the last bytes of a part before that request is counted down.
    const bool is_alone = ++active == 1;
    if (!is_alone && !test::eventually([&] { return active == 1; }, std::chrono::milliseconds(200))) {
      ++denied;
      wire.send(answer("403 Enough", ""));
    } else {
      send_part(request, wire);
    }
    --active;
  });
  EXPECT_EQ(downloaded({server.url("/m")}), describe(body()));
  EXPECT_GE(denied, 1u);
}

TEST_F(ParallelTransfers, StalledPartIsRequestedOverAnotherConnection) {
  std::atomic<bool> stalled = false;
  HttpServer server([&](const SeenRequest& request, Wire& wire) {
    if (request.range()->first > 0 && !stalled.exchange(true)) return wire.stall();
    send_part(request, wire);
  });
  http::Options patient;
  patient.stall_timeout = std::chrono::hours(1);
  EXPECT_EQ(downloaded({server.url("/m")}, patient, {.stalled_transfer = std::chrono::milliseconds(300)}),
            describe(body()));
  EXPECT_TRUE(stalled);
}

TEST_F(ParallelTransfers, RedirectIsFollowedOnceForAllParts) {
  HttpServer server([](const SeenRequest& request, Wire& wire) {
    if (request.target == "/m") return void(wire.send(answer("307 Temporary", "", {"Location: /link?signed"})));
    send_part(request, wire);
  });
  EXPECT_EQ(downloaded({server.url("/m")}), describe(body()));
  EXPECT_EQ(server.count("GET", "/m"), 1u);
  EXPECT_GE(server.count("GET", "/link"), 4u);
}

TEST_F(ParallelTransfers, ExpiredRedirectsAreResolvedAgain) {
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
    send_part(request, wire);
  });
  EXPECT_EQ(downloaded({server.url("/m")}), describe(body()));
  EXPECT_GE(server.count("GET", "/m"), 2u);
}

TEST_F(ParallelTransfers, AnotherOriginCompletesTheDownload) {
  std::atomic<uint64_t> parts = 0;
  HttpServer dying([&](const SeenRequest& request, Wire& wire) {
    if (parts++ >= 3) return void(wire.send(answer("404 Gone", "")));
    send_part(request, wire);
  });
  HttpServer good(slow_server());
  EXPECT_EQ(downloaded({dying.url("/m"), good.url("/m")}), describe(body()));
  EXPECT_GE(good.requests().size(), 1u);
  EXPECT_NE(good.requests()[0].header("range"), "");
}

TEST_F(ParallelTransfers, OriginOfWrongBytesIsNotUsedAgain) {
  const std::string wrong(kSize, 'x');
  HttpServer bad([&](const SeenRequest& request, Wire& wire) { serve_file(request, wire, wrong); });
  HttpServer good(slow_server());
  EXPECT_EQ(downloaded({bad.url("/m"), good.url("/m")}), describe(body()));
}

}  // namespace
}  // namespace weightfs::test::parallel_transfers_test
