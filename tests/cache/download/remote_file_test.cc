#include "cache/download/remote_file.h"

#include <fmt/core.h>

#include <atomic>
#include <stop_token>

#include "cache/direct_client.h"
#include "tests/cache/fetch_fixture.h"

namespace weightfs::remote_file_test {
namespace {

using namespace download;
using namespace fetch_fixture;
using ::testing::HasSubstr;

// ---- valid responses

TEST(RemoteFile, WholeBlobNeedsOneRequestWithoutRange) {
  HttpServer server(serves(kBody));
  const auto file = file_at(kSize, {server.url("/m?token=1")});
  EXPECT_EQ(fetched(*file).text(), describe(kBody));
  EXPECT_EQ(file->printable(), server.url("/m"));
  ASSERT_EQ(server.requests().size(), 1u);
  EXPECT_EQ(server.requests()[0].header("range"), "");
  EXPECT_EQ(server.requests()[0].header("accept-encoding"), "deflate, gzip, br, zstd");
}

TEST(RemoteFile, LargeBlobIsRequestedUncompressed) {
  HttpServer server(always(answer("404 Not Found", "")));
  fetched(uint64_t{1} << 30, {server.url("/m")});
  EXPECT_EQ(server.requests()[0].header("accept-encoding"), "identity");
}

TEST(RemoteFile, BlobOfUnknownSizeEndsWithBody) {
  HttpServer server([](const SeenRequest& request, Wire& wire) {
    if (request.target == "/chunked") return void(wire.send(chunked(kBody)));
    if (request.target == "/length") return serve_file(request, wire, kBody);
    wire.send("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + kBody);
    wire.close();
  });
  for (const char* target : {"/chunked", "/length", "/close"})
    EXPECT_EQ(fetched(std::nullopt, {server.url(target)}).text(), describe(kBody)) << target;
  EXPECT_EQ(fetched(kSize, {server.url("/chunked")}).text(), describe(kBody));
  EXPECT_EQ(server.requests().size(), 4u);
}

// ---- more than was requested

// Serves the range from `before` bytes earlier to `after` bytes later.
HttpServer::Handler serves_around(const std::string& body, uint64_t before, uint64_t after) {
  return [=](const SeenRequest& request, Wire& wire) {
    SeenRequest larger = request;
    const auto range = request.range();
    larger.headers["range"] =
        fmt::format("bytes={}-{}", range->first - std::min(before, range->first), range->second + after - 1);
    serve_file(larger, wire, body);
  };
}

std::string range_of(RemoteFile& file, ByteRange range) {
  std::string bytes;
  const auto sink = [&](uint64_t offset, std::span<const std::byte> some) -> Result<bool> {
    if (!some.empty()) EXPECT_EQ(offset, range.from + bytes.size());
    bytes.append(reinterpret_cast<const char*>(some.data()), some.size());
    return true;
  };
  const auto done = file.fetch(range, sink, kNeverStop);
  return done ? bytes : done.error().message;
}

// semantics 21.4
TEST(RemoteFile, SurplusOfALargerRangeIsReadOnTheSameConnection) {
  HttpServer server(serves_around(kBody, 10'000, 20'000));
  const auto file = file_at(kSize, {server.url("/m")});
  for (const uint64_t at : {5'000u, 100'000u, 299'000u})
    EXPECT_EQ(describe(range_of(*file, {at, at + 100})), describe(kBody.substr(at, 100)));
  ASSERT_EQ(server.requests().size(), 3u);
  for (const SeenRequest& request : server.requests()) EXPECT_EQ(request.connection, 0u);
}

TEST(RemoteFile, LongSurplusClosesTheConnection) {
  const std::string body = some_bytes(20 << 20);
  HttpServer server(serves_around(body, 0, 16 << 20));
  const auto file = file_at(body.size(), {server.url("/m")});
  for (const uint64_t at : {1'000'000u, 2'000'000u})
    EXPECT_EQ(describe(range_of(*file, {at, at + 100})), describe(body.substr(at, 100)));
  ASSERT_EQ(server.requests().size(), 2u);
  EXPECT_NE(server.requests()[0].connection, server.requests()[1].connection);
}

// ---- a known version

// semantics 23.3
TEST(RemoteFile, KnownVersionIsTheConditionOfEachRequest) {
  HttpServer server([](const SeenRequest& request, Wire& wire) { serve_file(request, wire, kBody, "\"now\""); });
  const auto read_as = [&](const std::string& etag) {
    const auto file = RemoteFile::of_version(std::make_shared<http::DirectClient>(http::Options{}), {server.url("/m")},
                                             {kSize, etag}, "", {});
    std::string text;
    const auto done = file->fetch({0, 100},
                                  [&](uint64_t, std::span<const std::byte> bytes) -> Result<bool> {
                                    text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
                                    return true;
                                  },
                                  {});
    return done ? text : done.error().message;
  };
  EXPECT_EQ(server.requests().size(), 0u);
  EXPECT_EQ(read_as("\"now\""), kBody.substr(0, 100));
  EXPECT_THAT(read_as("\"before\""), HasSubstr("changed on the server"));
  EXPECT_EQ(read_as(""), kBody.substr(0, 100));
  EXPECT_EQ(server.requests()[1].header("if-match"), "\"before\"");
  EXPECT_EQ(server.requests()[2].header("if-match"), "");
}

// semantics 23.5
TEST(RemoteFile, ErrorBodyIsDescribed) {
  HttpServer server(always(answer("403 Forbidden", std::string(100'000, 'x'))));
  Origin origin{server.url("/m")};
  origin.error_text = [](std::string_view body) { return fmt::format("{} bytes of {}", body.size(), body.front()); };
  const auto file =
      RemoteFile::of_version(std::make_shared<http::DirectClient>(http::Options{}), origin, {kSize, "\"t\""}, "", {});
  const auto done = file->fetch({0, 100}, [](uint64_t, std::span<const std::byte>) { return Result<bool>(true); }, {});
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().message, server.url("/m") + ": 403 Forbidden: 4096 bytes of x");
}

// A CDN says in the body why it refuses: as text, JSON or XML.
TEST(RemoteFile, RefusalHasTheReasonInItsBody) {
  const auto error_with = [](const std::string& status, const std::string& body, const std::string& header = "") {
    HttpServer server(always(answer(status, body, {header.empty() ? "X-A: b" : header})));
    const std::string message = fetched(kSize, {server.url("/m")}).error->message;
    const size_t end = message.find(server.url("/m"));
    return message.substr(end + server.url("/m").size());
  };
  const std::string no = "403 Forbidden";
  EXPECT_EQ(error_with(no, "Auth failed: invalid range\nrequest 7\n"), ": 403 Forbidden: Auth failed: invalid range");
  EXPECT_EQ(error_with(no, R"({"error": "no\u001b[31m entry"})"), ": 403 Forbidden: no\\x1b[31m entry");
  EXPECT_EQ(error_with(no, "<?xml version='1.0'?><Error><Code>AccessDenied</Code><Message>Expired</Message></Error>"),
            ": 403 Forbidden: Expired");
  EXPECT_EQ(error_with(no, "no access to /m?sig=secret&b=2 today"), ": 403 Forbidden: no access to /m today");
  EXPECT_EQ(error_with(no, R"({"error": "Authorization: Bearer secret: token hf_0123456789abcdefgh, '/m' expired"})"),
            ": 403 Forbidden: Authorization: Bearer ... token ..., '/m' expired");
  for (const char* const nothing : {"", "<!DOCTYPE html><html>Sign in</html>", "<a>x</a>", "\x01\x02", "{broken"})
    EXPECT_EQ(error_with(no, nothing), ": 403 Forbidden") << nothing;
  EXPECT_LE(error_with(no, std::string(100'000, 'x')).size(), 400U);
  EXPECT_EQ(error_with(no, "text", "X-Error-Message: reason"), ": 403 Forbidden, reason");
  EXPECT_EQ(error_with("404 Not Found", "text"), ": 404 Not Found");
}

// ---- invalid responses

TEST(RemoteFile, WrongContentLengthIsRejected) {
  HttpServer wrong(serves(kBody + "x"));
  HttpServer right(serves(kBody));
  const Fetched got = fetched(kSize, {wrong.url("/m")});
  EXPECT_EQ(got.text(), describe("") + ", then model: " + wrong.url("/m") + ": has 300001 bytes, expected 300000");
  EXPECT_EQ(got.error->code, Code::corrupt);
  EXPECT_EQ(fetched(kSize, {wrong.url("/m"), right.url("/m")}).text(), describe(kBody));
  EXPECT_EQ(wrong.requests().size(), 2u);
  EXPECT_EQ(right.requests().size(), 1u);
}

TEST(RemoteFile, OverlongBodyIsCutAtTheExpectedSize) {
  HttpServer server(always(chunked(kBody + "more")));
  const Fetched got = fetched(kSize, {server.url("/m")});
  ASSERT_TRUE(got.error);
  EXPECT_EQ(got.error->code, Code::corrupt);
  EXPECT_THAT(got.error->message, HasSubstr("longer than the expected 300000 bytes"));
  EXPECT_EQ(got.bytes, kBody);
  HttpServer right(serves(kBody));
  EXPECT_EQ(fetched(kSize, {server.url("/m"), right.url("/m")}).text(), describe(kBody));
}

TEST(RemoteFile, BodyShorterThanSizeIsCorrupt) {
  HttpServer server(always(chunked(kBody.substr(0, 1000))));
  const Fetched got = fetched(kSize, {server.url("/m")});
  ASSERT_TRUE(got.error);
  EXPECT_EQ(got.error->code, Code::corrupt);
  EXPECT_EQ(got.bytes, kBody.substr(0, 1000));
  EXPECT_EQ(server.requests().size(), 1u);
}

// 1 MiB of zeroes in the deflate of zlib: a few bytes on the wire.
TEST(RemoteFile, DecompressionBombIsBoundedBySize) {
  std::string bomb = "\x78\xda";  // zlib's header; then fixed Huffman blocks of one literal 0 and many matches
  uint64_t bits = 0;
  int held = 0;
  const auto put = [&](uint64_t value, int count) {
    for (int i = 0; i < count; ++i) {
      bits |= ((value >> i) & 1) << held;
      if (++held < 8) continue;
      bomb += static_cast<char>(bits);
      bits = 0;
      held = 0;
    }
  };
  put(1, 1);           // the last block
  put(1, 2);           // fixed codes (RFC 1951, section 3.2.6)
  put(0b00001100, 8);  // literal 0: 00110000, most significant bit first
  for (int i = 0; i < 100'000; ++i) {
    put(0b10100011, 8);  // length 258: 11000101
    put(0, 5);           // distance 1
  }
  HttpServer server(always(answer("200 OK", bomb, {"Content-Encoding: deflate"})));
  const Fetched got = fetched(1000, {server.url("/m")});
  ASSERT_TRUE(got.error);
  EXPECT_EQ(got.error->code, Code::corrupt);
  EXPECT_THAT(got.error->message, HasSubstr("longer than the expected 1000 bytes"));
  EXPECT_LE(got.bytes.size(), 1000u);
  EXPECT_EQ(got.bytes, std::string(got.bytes.size(), '\0'));
}

TEST(RemoteFile, InvalidContentEncodingIsCorrupt) {
  HttpServer server(always(answer("200 OK", "not gzip", {"Content-Encoding: gzip"})));
  const Fetched got = fetched(std::nullopt, {server.url("/m")});
  ASSERT_TRUE(got.error);
  EXPECT_EQ(got.error->code, Code::corrupt);
  EXPECT_EQ(server.requests().size(), 1u);
}

TEST(RemoteFile, ErrorNamesAllOriginsWhenNoneHasBlob) {
  HttpServer server(always(answer("404 Not Found", "no")));
  const Fetched none = fetched(kSize, {server.url("/a?x"), server.url("/b")});
  EXPECT_EQ(none.error->message,
            "model: " + server.url("/a") + ": 404 Not Found; " + server.url("/b") + ": 404 Not Found");
  EXPECT_EQ(none.error->code, Code::not_found);
  const std::string dead = dead_url();
  const Fetched mixed = fetched(kSize, {server.url("/a"), dead});
  EXPECT_EQ(mixed.error->code, Code::unreachable) << "a mirror may lack the file";
  EXPECT_THAT(mixed.error->message, HasSubstr("; " + dead + ": connection refused"));
  EXPECT_EQ(fetched(kSize, {"file:///x", "ftp://x/"}).error->code, Code::unsupported);
  EXPECT_EQ(fetched(kSize, {}).error->code, Code::network);
  EXPECT_EQ(server.requests().size(), 3u);
}

TEST(RemoteFile, AtMostSixteenOriginsAreUsed) {
  HttpServer server(always(answer("404 Not Found", "")));
  std::vector<std::string> urls;
  for (int i = 0; i < 40; ++i) urls.push_back(server.url(fmt::format("/{}", i)));
  const auto file = file_at(std::nullopt, urls);
  EXPECT_EQ(file->query_size(kNeverStop).error().code, Code::not_found);
  EXPECT_EQ(server.requests().size(), 16u);
  EXPECT_EQ(fetched(*file).error->code, Code::not_found);
  EXPECT_EQ(server.requests().size(), 32u);
}

// ---- redirects

TEST(RemoteFile, ExpiredRedirectIsResolvedAgain) {
  std::atomic<int> links = 0;
  std::atomic<int> requested = 0;
  HttpServer server([&](const SeenRequest& request, Wire& wire) {
    if (request.target == "/m")
      return void(wire.send(answer("302 Found", "", {fmt::format("Location: /link{}", ++links)})));
    if (request.range() && request.target == "/link1") return void(wire.send(answer("403 Expired", "")));
    const uint64_t from = request.range() ? request.range()->first : 0;
    if (requested++ > 0) return serve_file(request, wire, kBody);
    wire.send(answer("200 OK", "", {fmt::format("Content-Length: {}", kSize), "ETag: \"e1\""}) +
              kBody.substr(from, 1000));
    wire.close();
  });
  EXPECT_EQ(fetched(kSize, {server.url("/m")}).text(), describe(kBody));
  EXPECT_EQ(server.count("GET", "/m"), 2u);
}

TEST(RemoteFile, RedirectTargetThatDeniesIsRetriedBoundedly) {
  HttpServer server([](const SeenRequest& request, Wire& wire) {
    if (request.target == "/m") return void(wire.send(answer("302 Found", "", {"Location: /link"})));
    wire.send(answer("403 Expired", ""));
  });
  EXPECT_THAT(fetched(kSize, {server.url("/m")}).error->message, HasSubstr("/link: 403 Forbidden"));
  EXPECT_EQ(server.requests().size(), 2u);
}

// ---- size

std::string size_of(RemoteFile& file) {
  const auto size = file.query_size(kNeverStop);
  if (!size) return size.error().message;
  return *size ? std::to_string(**size) : "unknown";
}

TEST(RemoteFileSize, MirrorsAloneMayNotCount) {
  HttpServer mirror(serves(kBody));
  std::atomic<bool> has_it = false;
  HttpServer server([&](const SeenRequest& request, Wire& wire) {
    if (has_it) return serve_file(request, wire, kBody);
    wire.send(answer("404 Not Found", ""));
  });
  const auto http = std::make_shared<http::DirectClient>(http::Options());
  const auto reported = [&] {
    RemoteFile file(http, "m", {{.url = mirror.url("/m"), .is_mirror = true}, {.url = server.url("/m")}}, std::nullopt,
                    quick_retries());
    return file.query_size(kNeverStop, RemoteFile::SizeBy::server);
  };
  EXPECT_EQ(reported().value(), std::nullopt);
  has_it = true;
  EXPECT_EQ(reported().value(), kSize);
}

TEST(RemoteFileSize, UsesHead) {
  HttpServer server(serves(kBody));
  EXPECT_EQ(size_of(*file_at(std::nullopt, {server.url("/m")})), "300000");
  EXPECT_EQ(server.requests().size(), 1u);
  EXPECT_EQ(server.count("HEAD"), 1u);
  EXPECT_EQ(size_of(*file_at(7, {server.url("/m")})), "7");
  EXPECT_EQ(server.requests().size(), 1u);
}

TEST(RemoteFileSize, UsesRangeRequestWhenHeadIsDenied) {
  for (const char* status : {"403 No", "405 No", "501 No"}) {
    HttpServer server([&](const SeenRequest& request, Wire& wire) {
      if (request.method == "HEAD") return void(wire.send(answer(status, "")));
      serve_file(request, wire, kBody);
    });
    EXPECT_EQ(size_of(*file_at(std::nullopt, {server.url("/m")})), "300000") << status;
    EXPECT_EQ(server.requests().size(), 2u);
  }
}

TEST(RemoteFileSize, IsTheTotalOfContentRangeWithStatus200) {
  HttpServer server([&](const SeenRequest& request, Wire& wire) {
    if (request.method == "HEAD") return void(wire.send(answer("403 No", "")));
    wire.send(answer("200 OK", kBody.substr(0, 1), {"Content-Range: bytes 0-0/300000"}));
  });
  EXPECT_EQ(size_of(*file_at(std::nullopt, {server.url("/m")})), "300000");
}

TEST(RemoteFileSize, IsUnknownWhenOriginsDisagree) {
  HttpServer lying(serves(kBody.substr(1)));
  HttpServer good(serves(kBody));
  EXPECT_EQ(size_of(*file_at(std::nullopt, {lying.url("/m"), good.url("/m")})), "unknown");
  EXPECT_EQ(size_of(*file_at(std::nullopt, {good.url("/m"), good.url("/n")})), "300000");
}

TEST(RemoteFileSize, IsTheOneThatOriginsReport) {
  HttpServer bad(always(answer("404 No", "")));
  HttpServer good(serves(kBody));
  EXPECT_EQ(size_of(*file_at(std::nullopt, {bad.url("/m"), good.url("/m")})), "300000");
  EXPECT_EQ(size_of(*file_at(std::nullopt, {bad.url("/m")})), "model: " + bad.url("/m") + ": 404 Not Found");
}

TEST(RemoteFileSize, IsUnknownWhenOnlyEncodedSizeIsReported) {
  HttpServer server([](const SeenRequest& request, Wire& wire) {
    wire.send(answer("200 OK", request.method == "HEAD" ? "" : "x", {"Content-Encoding: gzip", "Content-Length: 1"}));
  });
  EXPECT_EQ(size_of(*file_at(std::nullopt, {server.url("/m")})), "unknown");
}

TEST(RemoteFileSize, AllOriginsShareOneTimeout) {
  HttpServer silent([](const SeenRequest&, Wire& wire) { wire.stall(); });
  HttpServer good(serves(kBody));
  http::Options http = short_patience();
  http.connect_timeout = http.stall_timeout;
  std::vector<std::string> urls(16, silent.url("/m"));
  const auto none = file_at(std::nullopt, urls, quick_retries(), http)->query_size(kNeverStop);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, Code::network);
  EXPECT_THAT(none.error().message, HasSubstr("timed out before all origins were tried"));
  EXPECT_LE(silent.requests().size(), 3u);
  urls.insert(urls.begin(), good.url("/m"));
  EXPECT_EQ(size_of(*file_at(std::nullopt, urls, quick_retries(), http)), "300000");
}

TEST(RemoteFileSize, LongRetryAfterIsNotWaitedFor) {
  HttpServer server(always(answer("503 No", "", {"Retry-After: 1000"})));
  RetryPolicy patient = quick_retries();
  patient.max_delay = std::chrono::hours(1);
  EXPECT_EQ(size_of(*file_at(std::nullopt, {server.url("/m")}, patient)),
            "model: " + server.url("/m") + ": 503 Service Unavailable");
  EXPECT_EQ(server.requests().size(), 1u);
}

// ---- stopping

TEST(RemoteFile, StopCancelsStalledResponse) {
  std::stop_source stop;
  HttpServer server([&](const SeenRequest&, Wire& wire) {
    wire.send(head(kSize) + "some");
    stop.request_stop();
    wire.stall();
  });
  http::Options patient;
  patient.stall_timeout = std::chrono::hours(1);
  const auto file = file_at(kSize, {server.url("/m")}, quick_retries(), patient);
  const Fetched got = fetched(*file, 0, stop.get_token());
  ASSERT_TRUE(got.error);
  EXPECT_EQ(got.error->message, "model: cancelled");
}

TEST(RemoteFile, StopCancelsRetryDelay) {
  std::stop_source stop;
  HttpServer server([&](const SeenRequest&, Wire& wire) {
    wire.send(answer("503 No", "", {"Retry-After: 3600"}));
    stop.request_stop();
  });
  RetryPolicy patient;
  patient.max_delay = std::chrono::hours(2);
  EXPECT_EQ(fetched(*file_at(kSize, {server.url("/m")}, patient), 0, stop.get_token()).error->message,
            "model: cancelled");
  EXPECT_EQ(server.requests().size(), 1u);
}

TEST(RemoteFile, SinkThatNeedsNoMoreClosesTheConnection) {
  test::Gate gone;
  HttpServer server([&](const SeenRequest&, Wire& wire) {
    wire.send(head(uint64_t{1} << 40));
    while (wire.send(std::string(1 << 16, 'x'))) {
    }
    gone.open();
  });
  const auto sink = [](uint64_t, std::span<const std::byte>) -> Result<bool> { return false; };
  EXPECT_TRUE(file_at(uint64_t{1} << 40, {server.url("/m")})->fetch({0, uint64_t{1} << 40}, sink, kNeverStop));
  gone.wait();
}

TEST(RemoteFile, ErrorOfTheSinkIsNotAFailureOfTheOrigin) {
  HttpServer server(serves(kBody));
  const auto sink = [](uint64_t, std::span<const std::byte>) -> Result<bool> { return failure(Code::io, "disk"); };
  const auto done = file_at(kSize, {server.url("/a"), server.url("/b")})->fetch({0, kSize}, sink, kNeverStop);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().message, "disk");
  EXPECT_EQ(server.requests().size(), 1u);
}

TEST(RemoteFile, CredentialsAreSentOnlyToTheirOrigin) {
  HttpServer other(serves(kBody));
  HttpServer server([&](const SeenRequest&, Wire& wire) {
    wire.send(answer("307 Temporary", "", {"Location: " + other.url("/link")}));
  });
  const std::vector<Origin> origins = {
      {server.url("/m"), http::Trust::user, std::make_shared<http::FixedCredentials>("Bearer secret")}};
  const auto http = std::make_shared<http::DirectClient>(http::Options());
  RemoteFile file(http, "model", origins, kSize, quick_retries());
  EXPECT_EQ(fetched(file).text(), describe(kBody));
  EXPECT_EQ(fetched(file, 1000).text(), describe(kBody.substr(1000)));
  ASSERT_EQ(server.requests().size(), 1u);
  EXPECT_EQ(server.requests()[0].header("authorization"), "Bearer secret");
  for (const SeenRequest& request : other.requests()) EXPECT_EQ(request.header("authorization"), "");
}

// As of a mirror in hosts.toml.
class HeaderCredentials final : public http::Credentials {
 public:
  std::vector<std::string> headers(std::string_view, const std::string&) override { return {"X-Key: 1"}; }
};

TEST(RemoteFile, HeadersOfCredentialsAreSentOnlyToTheirOrigin) {
  HttpServer other(serves(kBody));
  HttpServer server([&](const SeenRequest& request, Wire& wire) {
    const std::string target = request.target == "/m" ? "/here" : other.url("/link");
    wire.send(answer("307 Temporary", "", {"Location: " + target}));
  });
  const Origin origin{.url = server.url("/m"), .credentials = std::make_shared<HeaderCredentials>()};
  RemoteFile file(std::make_shared<http::DirectClient>(http::Options()), "model", {origin}, kSize, quick_retries());
  for (const uint64_t from : {0U, 1000U}) EXPECT_FALSE(fetched(file, from).error);
  ASSERT_EQ(server.requests().size(), 2u);
  for (const SeenRequest& request : server.requests()) EXPECT_EQ(request.header("x-key"), "1") << request.target;
  ASSERT_EQ(other.requests().size(), 2u);
  for (const SeenRequest& request : other.requests()) EXPECT_EQ(request.header("x-key"), "");
}

TEST(RemoteFile, HeadersAreSentToTheirUrlInEverySpelling) {
  HttpServer server(serves(kBody));
  for (const char* target : {"/m", "/a b", "/a/../m", "/m#part", "/é"}) {
    const Origin origin{.url = server.url(target), .credentials = std::make_shared<HeaderCredentials>()};
    RemoteFile file(std::make_shared<http::DirectClient>(http::Options()), "model", {origin}, kSize, quick_retries());
    for (const uint64_t from : {kSize - 1, kSize - 2}) EXPECT_FALSE(fetched(file, from).error) << target;
  }
  EXPECT_EQ(server.requests().size(), 10u);
  for (const SeenRequest& request : server.requests()) EXPECT_EQ(request.header("x-key"), "1") << request.target;
}

}  // namespace
}  // namespace weightfs::remote_file_test
