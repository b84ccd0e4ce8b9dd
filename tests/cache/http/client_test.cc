#include <fmt/core.h>

#include <ctime>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "base/values/http.h"
#include "cache/direct_client.h"
#include "tests/cache/http_fixture.h"

namespace weightfs::client_test {
namespace {

using namespace http;
using namespace http_fixture;
using ::testing::AnyOf;
using ::testing::HasSubstr;

// ---- responses

TEST(HttpClient, ResponseHasStatusHeadersAndBody) {
  HttpServer server(always(answer("200 OK", "body", {"X-Thing:  some value ", "x-thing: other"})));
  DirectClient http(quick());
  const auto page = download::send_request(http, get(server.url("/a?q=1")), 100, kNeverStop);
  ASSERT_EQ(describe(page), "200 body");
  EXPECT_EQ(page->head.header("x-thing"), "some value");
  EXPECT_EQ(page->head.header("absent"), "");
  EXPECT_EQ(page->head.url, server.url("/a?q=1"));
  ASSERT_EQ(server.requests().size(), 1u);
  EXPECT_EQ(server.requests()[0].target, "/a?q=1");
  EXPECT_EQ(server.requests()[0].header("user-agent"), "weightfs");
  EXPECT_EQ(server.requests()[0].header("accept-encoding"), "identity");
  EXPECT_EQ(server.requests()[0].header("authorization"), "");
}

TEST(HttpClient, ClockIsComparedWithTheDateAndItsAge) {
  constexpr std::chrono::minutes kOld{50};
  const auto ahead = [&](const std::vector<std::string>& more) {
    std::vector<std::string> headers = {"Date: " + http_date(std::time(nullptr) - std::chrono::seconds(kOld).count())};
    headers.insert(headers.end(), more.begin(), more.end());
    HttpServer server(always(answer("200 OK", "x", headers)));
    DirectClient http(quick());
    EXPECT_EQ(describe(download::send_request(http, get(server.url("/")), 9, kNeverStop)), "200 x");
    const auto answers = http.answers();
    return answers.empty() ? std::nullopt : answers.begin()->second.clock_ahead;
  };
  EXPECT_LE(ahead({}).value(), -kOld);
  EXPECT_LE(ahead({"Age: old"}).value(), -kOld);
  EXPECT_GT(ahead({"Age: 6000"}).value(), std::chrono::minutes(0));  // a test may take minutes
}

TEST(HttpClient, ErrorStatusIsNotFailure) {
  HttpServer server(always(answer("404 Not Found", "none")));
  EXPECT_EQ(send(get(server.url("/"))), "404 none");
}

TEST(HttpClient, HeadReadsNoBody) {
  HttpServer server([](const SeenRequest& request, Wire& wire) { serve_file(request, wire, "12345"); });
  DirectClient http(quick());
  Request request = get(server.url("/"));
  request.method = Request::Method::head;
  const auto page = download::send_request(http, request, 0, kNeverStop);
  ASSERT_EQ(describe(page), "200 ");
  EXPECT_EQ(page->head.header("content-length"), "5");
  EXPECT_EQ(server.count("HEAD"), 1u);
}

TEST(HttpClient, ConnectionsAreReused) {
  HttpServer server(always(answer("200 OK", "x")));
  DirectClient http(quick());
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(describe(download::send_request(http, get(server.url("/")), 9, kNeverStop)), "200 x");
  ASSERT_EQ(server.requests().size(), 3u);
  for (const SeenRequest& request : server.requests()) EXPECT_EQ(request.connection, 0u);
}

TEST(HttpClient, OverlongResponseIsRejected) {
  HttpServer server(always(answer("200 OK", "12345")));
  DirectClient http(quick());
  EXPECT_EQ(describe(download::send_request(http, get(server.url("/")), 5, kNeverStop)), "200 12345");
  EXPECT_THAT(describe(download::send_request(http, get(server.url("/")), 4, kNeverStop)), HasSubstr("corrupt: "));
}

TEST(HttpClient, HandlerErrorEndsRequest) {
  HttpServer server(always(answer("200 OK", "12345")));
  DirectClient http(quick());
  bool on_body = false;
  const ResponseHandler refuses{[](const Response&) -> Result<void> { return failure(Code::mismatch, "not this"); },
                                [&](std::span<const std::byte>) -> Result<void> {
                                  on_body = true;
                                  return {};
                                }};
  const auto ended = http.perform(get(server.url("/")), refuses, kNeverStop);
  ASSERT_FALSE(ended);
  EXPECT_EQ(ended.error().message, "not this");
  EXPECT_FALSE(on_body);
}

// It does not count as slow either, although the speed is far below the minimum.
TEST(HttpClient, SlowHandlerIsNotStall) {
  HttpServer server([](const SeenRequest&, Wire& wire) {
    wire.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\na");
    if (wire.pause(std::chrono::milliseconds(200))) wire.send("b");
  });
  DirectClient http(quick());
  std::string body;
  const ResponseHandler slow{[](const Response&) -> Result<void> { return {}; },
                             [&](std::span<const std::byte> bytes) -> Result<void> {
                               std::this_thread::sleep_for(2 * quick().stall_timeout);  // the handler is slow
                               body.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
                               return {};
                             }};
  EXPECT_TRUE(http.perform(get(server.url("/")), slow, kNeverStop));
  EXPECT_EQ(body, "ab");
}

// ---- encodings (RFC 9110, section 8.4)

std::string bytes_of(std::initializer_list<int> values) {
  std::string bytes;
  for (const int value : values) bytes += static_cast<char>(value);
  return bytes;
}

// "hello, hello, hello", as the tools of each encoding write it.
const std::string kPlain = "hello, hello, hello";
const std::string kGzip =
    bytes_of({0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0x03, 0xcb, 0x48, 0xcd, 0xc9, 0xc9,
              0xd7, 0x51, 0xc8, 0x40, 0xa2, 0x00, 0x9f, 0xa1, 0xca, 0x09, 0x13, 0x00, 0x00, 0x00});
const std::string kDeflate =
    bytes_of({0x78, 0x9c, 0xcb, 0x48, 0xcd, 0xc9, 0xc9, 0xd7, 0x51, 0xc8, 0x40, 0xa2, 0x00, 0x44, 0x28, 0x06, 0xd5});
const std::string kZstd = bytes_of({0x28, 0xb5, 0x2f, 0xfd, 0x04, 0x58, 0x6d, 0x00, 0x00, 0x38, 0x68, 0x65, 0x6c,
                                    0x6c, 0x6f, 0x2c, 0x20, 0x01, 0x00, 0xe2, 0x8a, 0x11, 0x75, 0xf3, 0x98, 0x8e});
const std::string kBrotli = bytes_of({0x20, 0x01, 0x10, 0x68, 0x65, 0x6c, 0x6c, 0x6f, 0x2c, 0x20, 0x68, 0x65,
                                      0x6c, 0x6c, 0x6f, 0x2c, 0x20, 0x68, 0x65, 0x6c, 0x6c, 0x6f, 0x03});

TEST(HttpClient, EncodedBodyIsAlwaysDecoded) {
  const std::pair<const char*, std::string> encodings[] = {
      {"gzip", kGzip}, {"deflate", kDeflate}, {"zstd", kZstd}, {"br", kBrotli}, {"identity", kPlain}};
  for (const auto& [name, bytes] : encodings)
    for (const bool encoded : {true, false}) {
      HttpServer server(always(answer("200 OK", bytes, {fmt::format("Content-Encoding: {}", name)})));
      Request request = get(server.url("/"));
      request.encoded = encoded;
      EXPECT_EQ(send(request), "200 " + kPlain) << name;
      const std::string accepted = server.requests()[0].header("accept-encoding");
      EXPECT_EQ(accepted, encoded ? "deflate, gzip, br, zstd" : "identity");
    }
}

TEST(HttpClient, InvalidContentEncodingIsCorrupt) {
  for (const char* name : {"gzip", "zstd", "br", "compress", "aws-chunked, gzip"}) {
    HttpServer server(always(answer("200 OK", "this is not encoded", {fmt::format("Content-Encoding: {}", name)})));
    EXPECT_THAT(send(get(server.url("/"))), HasSubstr("corrupt: http://127.0.0.1")) << name;
  }
}

// semantics 21.4: stores keep what an upload has sent, and words that are no content coding.
TEST(HttpClient, BodyWithoutAKnownCodingIsAsItIs) {
  for (const char* name : {"aws-chunked", "AWS-Chunked", "utf-8", "aws-chunked, identity", "never-heard-of"})
    for (const bool encoded : {true, false}) {
      HttpServer server(always(answer("200 OK", kPlain, {fmt::format("Content-Encoding: {}", name)})));
      Request request = get(server.url("/"));
      request.encoded = encoded;
      EXPECT_EQ(send(request), "200 " + kPlain) << name;
      EXPECT_EQ(server.requests().size(), 2u) << "libcurl has to be told before the body";
    }
}

TEST(HttpClient, RangeIsNeverDecoded) {
  for (const char* name : {"aws-chunked", "gzip"}) {
    HttpServer server(always(answer("206 Partial Content", kPlain,
                                    {fmt::format("Content-Encoding: {}", name), "Content-Range: bytes 0-18/100"})));
    EXPECT_EQ(send(get(server.url("/"))), "206 " + kPlain) << name;
    EXPECT_EQ(server.requests().size(), 1u);
  }
}

// A server that changes its mind between the two requests would give encoded bytes.
TEST(HttpClient, CodingThatAppearsInTheRepetitionIsCorrupt) {
  std::atomic<int> count = 0;
  HttpServer server([&](const SeenRequest&, Wire& wire) {
    wire.send(answer("200 OK", kGzip, {count++ == 0 ? "Content-Encoding: aws-chunked" : "Content-Encoding: gzip"}));
  });
  EXPECT_THAT(send(get(server.url("/"))), HasSubstr("corrupt: " + server.url("/") + ": the content encoding"));
}

// ---- credentials

// Adds a header to each request: its method and URL.
class UrlHeader final : public Credentials {
 public:
  std::vector<std::string> headers(std::string_view method, const std::string& url) override {
    return {fmt::format("X-Signed: {} {}", method, url)};
  }
};

// semantics 23.2
TEST(HttpClient, CredentialHeadersAreSentToTheirOriginOnly) {
  HttpServer other(always(answer("200 OK", "other")));
  HttpServer server([&](const SeenRequest& request, Wire& wire) {
    if (request.target == "/here") return void(wire.send(answer("302 Found", "", {"Location: /there?q=1"})));
    wire.send(answer("302 Found", "", {"Location: " + other.url("/elsewhere")}));
  });
  Request request = get(server.url("/here"));
  request.credentials = std::make_shared<UrlHeader>();
  EXPECT_EQ(send(request), "200 other");
  ASSERT_EQ(server.requests().size(), 2u);
  EXPECT_EQ(server.requests()[0].header("x-signed"), "GET " + server.url("/here"));
  EXPECT_EQ(server.requests()[1].header("x-signed"), "GET " + server.url("/there?q=1"));
  ASSERT_EQ(other.requests().size(), 1u);
  EXPECT_EQ(other.requests()[0].header("x-signed"), "");
}

// ---- failures

TEST(HttpClient, RefusedConnectionIsReportedWithoutQuery) {
  std::string url;
  {
    HttpServer server(always(""));
    url = server.url("/path");
  }
  EXPECT_EQ(send(get(url + "?secret=1")), "unreachable: " + url + ": connection refused");
}

TEST(HttpClient, StalledBodyIsAnErrorOfTheNetwork) {
  HttpServer server([](const SeenRequest&, Wire& wire) {
    wire.send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab");
    wire.stall();
  });
  EXPECT_EQ(send(get(server.url("/"))), "network: " + server.url("/") + ": no data for 300 ms");
}

TEST(HttpClient, StalledResponseIsAnErrorOfTheNetwork) {
  HttpServer server([](const SeenRequest&, Wire& wire) { wire.stall(); });
  EXPECT_THAT(send(get(server.url("/"))), HasSubstr("no data for 300 ms"));
}

// About 20 bytes a second for 10 s.
void drip(Wire& wire, const std::string& head) {
  wire.send(head);
  for (int i = 0; i < 200 && wire.pause(std::chrono::milliseconds(50)); ++i) wire.send("x");
  wire.close();
}

TEST(HttpClient, TrickleAboveMinSpeedIsNotStall) {
  HttpServer server([](const SeenRequest&, Wire& wire) {
    wire.send("HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n");
    for (int i = 0; i < 50 && wire.pause(std::chrono::milliseconds(50)); ++i) wire.send(std::to_string(i % 10));
  });
  Options options = quick();
  options.stall_timeout = std::chrono::seconds(1);
  options.min_speed = 1;
  EXPECT_EQ(send(get(server.url("/")), options), "200 01234567890123456789012345678901234567890123456789");
}

TEST(HttpClient, SlowTrickleTimesOut) {
  HttpServer server([](const SeenRequest& request, Wire& wire) {
    drip(wire, request.target == "/body" ? "HTTP/1.1 200 OK\r\n\r\n" : "HTTP/1.1 200 OK\r\nX-Header: ");
  });
  EXPECT_EQ(send(get(server.url("/body"))), "network: " + server.url("/body") + ": slower than 1.0 KiB/s for 600 ms");
  EXPECT_THAT(send(get(server.url("/headers"))), HasSubstr("network: "));
}

TEST(HttpClient, RequestEndsAtDeadline) {
  HttpServer server([](const SeenRequest&, Wire& wire) { wire.stall(); });
  Options patient;
  patient.stall_timeout = std::chrono::hours(1);
  Request request = get(server.url("/"));
  request.deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(100);
  EXPECT_EQ(send(request, patient), "network: " + server.url("/") + ": timed out");
}

TEST(HttpClient, TruncatedBodyIsAnErrorOfTheNetwork) {
  HttpServer server([](const SeenRequest& request, Wire& wire) {
    wire.send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab");
    request.target == "/reset" ? wire.reset() : wire.close();
  });
  EXPECT_THAT(send(get(server.url("/close"))), HasSubstr("network: " + server.url("/close") + ": truncated"));
  EXPECT_THAT(send(get(server.url("/reset"))), HasSubstr("network: " + server.url("/reset") + ": "));
}

TEST(HttpClient, NonHttpResponseIsCorrupt) {
  HttpServer server([](const SeenRequest&, Wire& wire) {
    wire.send("220 mail.example.com ESMTP\r\n");
    wire.close();
  });
  EXPECT_THAT(send(get(server.url("/"))), HasSubstr("corrupt: "));
}

TEST(HttpClient, EndlessHeadersAreRejected) {
  HttpServer server([](const SeenRequest&, Wire& wire) {
    wire.send("HTTP/1.1 200 OK\r\n");
    while (wire.send("X-Header: " + std::string(1000, 'x') + "\r\n")) {
    }
  });
  EXPECT_THAT(send(get(server.url("/"))), HasSubstr("256.0 KiB of response headers"));
}

TEST(HttpClient, StopCancelsWaitingRequest) {
  std::stop_source stop;
  HttpServer server([&](const SeenRequest&, Wire& wire) {
    stop.request_stop();
    wire.stall();
  });
  Options patient;
  patient.stall_timeout = std::chrono::hours(1);
  DirectClient http(patient);
  EXPECT_EQ(describe(download::send_request(http, get(server.url("/")), 100, stop.get_token())),
            "network: " + server.url("/") + ": cancelled");
}

// ---- URLs

TEST(Url, OriginIsSchemeHostAndPort) {
  EXPECT_EQ(origin_of("HTTPS://Example.COM/a?b"), "https://example.com:443");
  EXPECT_EQ(origin_of("http://example.com:8080"), "http://example.com:8080");
  EXPECT_EQ(origin_of("http://[::1]/"), "http://[::1]:80");
  EXPECT_EQ(origin_of("ftp://example.com/"), "");
  EXPECT_EQ(origin_of("example.com"), "");
}

// RFC 3986, section 5.4
// RFC 3986, section 6.2.2.1
TEST(Url, HostIsTheSameInAnyCase) {
  const std::pair<const char*, const char*> cases[] = {{"HTTPS://Example.COM/A?B#C", "https://example.com/A?B#C"},
                                                       {"http://EXAMPLE.com:8080", "http://example.com:8080"},
                                                       {"https://User:Pass@HOST?X", "https://User:Pass@host?X"},
                                                       {"https://a/B@C", "https://a/B@C"},
                                                       {"http://[fe80::1%25Eth0]/A", "http://[fe80::1%25Eth0]/A"},
                                                       {"s3://Models/Key", "s3://Models/Key"},
                                                       {"Models/Key", "Models/Key"},
                                                       {"https://", "https://"},
                                                       {"", ""}};
  for (const auto& [given, expected] : cases) EXPECT_EQ(with_lower_case_host(given), expected);
  EXPECT_EQ(normalized_url("https://Example.COM/A#C"), "https://example.com/A");
  EXPECT_EQ(printable_url("https://Example.COM/A?secret"), "https://example.com/A");
}

TEST(Url, ReferenceIsResolvedAgainstBase) {
  const std::string base = "http://a/b/c/d?q";
  EXPECT_EQ(resolve_url(base, "g"), "http://a/b/c/g");
  EXPECT_EQ(resolve_url(base, "./g/"), "http://a/b/c/g/");
  EXPECT_EQ(resolve_url(base, "/g"), "http://a/g");
  EXPECT_EQ(resolve_url(base, "//g"), "http://g/");
  EXPECT_EQ(resolve_url(base, "?y"), "http://a/b/c/d?y");
  EXPECT_EQ(resolve_url(base, "../../g"), "http://a/g");
  EXPECT_EQ(resolve_url(base, "../../../g"), "http://a/g");
  EXPECT_EQ(resolve_url(base, "https://x/y"), "https://x/y");
  EXPECT_EQ(resolve_url("no base", "g"), "");
}

TEST(Url, EncodingKeepsUnreservedBytesOnly) {
  EXPECT_EQ(url_encoded("aZ09-._~"), "aZ09-._~");
  EXPECT_EQ(url_encoded("a/b c+d=e@%é\n!*'()"), "a%2Fb%20c%2Bd%3De%40%25%C3%A9%0A%21%2A%27%28%29");
  EXPECT_EQ(url_encoded("a/b c", "/"), "a/b%20c");
}

TEST(Url, InvalidEscapeIsKept) {
  bool is_valid = true;
  EXPECT_EQ(url_decoded("a%2fb%C3%A9+%00", &is_valid), std::string("a/b\xC3\xA9+\0", 7));
  EXPECT_TRUE(is_valid);
  for (const char* text : {"%", "a%2", "%zz%2", "%-1", "%+1", "% 1", "%1"}) {
    is_valid = true;
    EXPECT_EQ(url_decoded(text, &is_valid), text);
    EXPECT_FALSE(is_valid) << text;
  }
}

TEST(Url, IsPrintedWithoutSecrets) {
  EXPECT_EQ(printable_url("https://me:pw@example.com:1/a?token=x#y"), "https://example.com:1/a");
  // libcurl writes lower-case digits, newer versions upper-case ones.
  EXPECT_THAT(printable_url("https://example.com/\xC2\x9B"),
              AnyOf("https://example.com/%c2%9b", "https://example.com/%C2%9B"));
  EXPECT_EQ(printable_url("\x01?secret"), "invalid URL");
}

}  // namespace
}  // namespace weightfs::client_test
