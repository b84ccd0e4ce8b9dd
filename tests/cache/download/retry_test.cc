// Retries, other origins, and resumed downloads.
#include <arpa/inet.h>
#include <fmt/core.h>
#include <sys/socket.h>

#include <stdexcept>
#include <stop_token>
#include <tuple>
#include <vector>

#include "base/cancel.h"
#include "base/os/descriptor.h"
#include "cache/direct_client.h"
#include "cache/download/mirror_scheduler.h"
#include "cache/download/remote_file.h"
#include "cache/download/request_with_retry.h"
#include "tests/cache/fetch_fixture.h"

namespace weightfs::retry_test {
namespace {

using namespace download;
using namespace fetch_fixture;
using ::testing::HasSubstr;

// ---- retries

TEST(RemoteFileRetries, CancelledThreadDoesNotWait) {
  EXPECT_TRUE(interruptible_sleep(std::chrono::milliseconds(1), kNeverStop));
  std::stop_source stopped;
  stopped.request_stop();
  EXPECT_FALSE(interruptible_sleep(std::chrono::hours(1), stopped.get_token()));
  HttpServer server(serves(kBody));
  const auto file = file_at(kSize, {server.url("/m")});
  const CancelScope scope([] { return true; });
  EXPECT_FALSE(interruptible_sleep(std::chrono::hours(1), kNeverStop));
  EXPECT_EQ(fetched(*file).text(), describe("") + ", then model: cancelled");
}

// Its queue of connections is full, so it answers none: like a firewall that drops packets.
class SilentListener {
 public:
  SilentListener() : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* const generic = reinterpret_cast<sockaddr*>(&address);
    const bool listens = ::bind(listener_.number(), generic, size) == 0 && ::listen(listener_.number(), 0) == 0 &&
                         ::getsockname(listener_.number(), generic, &size) == 0;
    if (!listens) throw std::runtime_error("no listener");
    port_ = ntohs(address.sin_port);
    for (int i = 0; i < 4; ++i) {
      queued_.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
      std::ignore = ::connect(queued_.back().number(), generic, size);
    }
  }

  std::string url() const { return fmt::format("http://127.0.0.1:{}/m", port_); }

 private:
  const Descriptor listener_;
  std::vector<Descriptor> queued_;
  uint16_t port_ = 0;
};

TEST(RequestRetries, ConnectionThatIsNotAcceptedIsNotTriedAgain) {
  const SilentListener silent;
  http::Options options = short_patience();
  options.connect_timeout = std::chrono::milliseconds(200);
  http::DirectClient http(options);
  http::Request request;
  request.url = silent.url();
  const auto page = request_with_retry(http, request, 100, kNeverStop, error_detail);
  ASSERT_FALSE(page);
  EXPECT_EQ(page.error().code, Code::unreachable) << page.error().message;
  EXPECT_TRUE(is_timeout(page.error()));
  const auto counts = http.requests();
  ASSERT_EQ(counts.size(), 1u);
  EXPECT_EQ(counts.begin()->second, 1u);
}

TEST(RemoteFileRetries, ResumesTruncatedBodyAtNextByteWithIfMatch) {
  HttpServer server(cut_once(100'000));
  EXPECT_EQ(fetched(kSize, {server.url("/m")}).text(), describe(kBody));
  ASSERT_EQ(server.requests().size(), 2u);
  EXPECT_EQ(server.requests()[1].header("range"), "bytes=100000-299999");
  EXPECT_EQ(server.requests()[1].header("if-match"), "\"e1\"");
}

TEST(RemoteFileRetries, ResumesAfterResetAndStall) {
  for (const bool stalls : {true, false}) {
    std::atomic<int> count = 0;
    HttpServer server([&](const SeenRequest& request, Wire& wire) {
      if (count++ > 0) return serve_file(request, wire, kBody);
      wire.send(head(kSize) + kBody.substr(0, 5000));
      stalls ? wire.stall() : wire.reset();
    });
    const auto file = file_at(kSize, {server.url("/m")}, quick_retries(), short_patience());
    EXPECT_EQ(fetched(*file).text(), describe(kBody));
    EXPECT_EQ(server.requests().size(), 2u);
    EXPECT_EQ(server.requests()[1].header("if-match"), "");
  }
}

TEST(RemoteFileRetries, ServerWithoutRangesIsReadFromStartAndSkipped) {
  std::atomic<int> count = 0;
  HttpServer server([&](const SeenRequest&, Wire& wire) {
    wire.send(head(kSize));
    wire.send(std::string_view(kBody).substr(0, count++ < 2 ? 70'000U * static_cast<size_t>(count) : kSize));
    wire.close();
  });
  EXPECT_EQ(fetched(kSize, {server.url("/m")}).text(), describe(kBody));
  ASSERT_EQ(server.requests().size(), 3u);
  EXPECT_EQ(server.requests()[1].header("range"), "bytes=70000-299999");
  EXPECT_EQ(server.requests()[2].header("range"), "");
}

TEST(RemoteFileRetries, ChangedBlobIsNotCombinedWithOldBytes) {
  std::atomic<int> count = 0;
  HttpServer server([&](const SeenRequest& request, Wire& wire) {
    if (count++ > 0) return serve_file(request, wire, kBody, "\"e2\"");
    wire.send(head(kSize, "ETag: \"e1\"\r\n") + kBody.substr(0, 1000));
    wire.close();
  });
  const Fetched got = fetched(kSize, {server.url("/m")});
  ASSERT_TRUE(got.error);
  EXPECT_THAT(got.error->message, HasSubstr("changed on the server"));
  EXPECT_EQ(got.bytes, kBody.substr(0, 1000));
  EXPECT_EQ(server.requests().size(), 2u);
}

TEST(RemoteFileRetries, WrongContentRangeIsRejected) {
  for (const char* lie : {"bytes 999-299999/300000", "bytes 1001-299999/300000", "bytes 1000-299999/300001",
                          "bytes 1000-299999/1", "bytes 1000-300000/300001", "bytes */300000", "pages 1-2/3", ""}) {
    std::atomic<int> count = 0;
    HttpServer server([&](const SeenRequest&, Wire& wire) {
      if (count++ == 0) {
        wire.send(head(kSize) + kBody.substr(0, 1000));
        return wire.close();
      }
      wire.send(answer("206 Partial Content", kBody.substr(1000), {fmt::format("Content-Range: {}", lie)}));
    });
    const Fetched got = fetched(kSize, {server.url("/m")});
    ASSERT_TRUE(got.error) << lie;
    EXPECT_EQ(got.error->code, Code::corrupt) << lie;
    EXPECT_EQ(got.bytes, kBody.substr(0, 1000));
    EXPECT_LE(server.requests().size(), 3u);  // the last without a range
  }
}

TEST(RemoteFileRetries, ShortPartialResponseIsContinued) {
  HttpServer server([](const SeenRequest& request, Wire& wire) {
    const auto range = request.range();
    if (!range) {
      wire.send(head(kSize) + kBody.substr(0, 1000));
      return wire.close();
    }
    const uint64_t last = std::min(range->first + 99'999, kSize - 1);
    wire.send(answer("206 Partial Content", kBody.substr(range->first, last + 1 - range->first),
                     {fmt::format("Content-Range: bytes {}-{}/*", range->first, last)}));
  });
  EXPECT_EQ(fetched(kSize, {server.url("/m")}).text(), describe(kBody));
  EXPECT_EQ(server.requests().size(), 4u);
}

TEST(RemoteFileRetries, ServerErrorIsRetried) {
  for (const char* status : {"500 No", "503 No", "429 No", "408 No", "425 No"}) {
    HttpServer server(first({answer(status, ""), answer(status, "x")}));
    EXPECT_EQ(fetched(kSize, {server.url("/m")}).text(), describe(kBody)) << status;
    EXPECT_EQ(server.requests().size(), 3u);
  }
}

TEST(RemoteFileRetries, ServerThatNeverAnsweredIsNotRetried) {
  std::string url;
  {
    HttpServer gone(serves(kBody));
    url = gone.url("/m");
  }
  const auto file = file_at(kSize, {url});
  EXPECT_THAT(fetched(*file).text(), HasSubstr("connection refused"));
  EXPECT_EQ(file->requests(), 1u);
}

TEST(RemoteFileRetries, RetriesAreCountedFromLastReceivedByte) {
  std::atomic<uint64_t> count = 0;
  HttpServer server([&](const SeenRequest& request, Wire& wire) {
    const uint64_t i = count++;
    if (i % 3 != 0) return void(wire.send(answer("500 No", "")));
    const uint64_t from = request.range() ? request.range()->first : 0;
    wire.send(request.range()
                  ? fmt::format("HTTP/1.1 206 Partial\r\nContent-Range: bytes {}-{}/{}\r\nContent-Length: {}\r\n\r\n",
                                from, kSize - 1, kSize, kSize - from)
                  : head(kSize));
    wire.send(std::string_view(kBody).substr(from, 50'000));
    wire.close();
  });
  EXPECT_EQ(fetched(kSize, {server.url("/m")}).text(), describe(kBody));
  EXPECT_EQ(server.requests().size(), 16u);
}

TEST(RemoteFileRetries, RetriesAreBounded) {
  HttpServer server(always(answer("503 No", "")));
  const Fetched got = fetched(kSize, {server.url("/m")});
  EXPECT_EQ(got.error->code, Code::network);
  EXPECT_EQ(got.error->message, "model: " + server.url("/m") + ": 503 Service Unavailable");
  EXPECT_EQ(server.requests().size(), 4u);
}

TEST(RemoteFileRetries, RetryAfterIsHonouredUpToMaxDelay) {
  HttpServer soon(first({answer("429 No", "", {"Retry-After: 1"})}));
  EXPECT_EQ(fetched(kSize, {soon.url("/m")}).text(), describe(kBody));
  EXPECT_EQ(soon.requests().size(), 2u);
  HttpServer late(first({answer("429 No", "", {"Retry-After: 60"})}));
  const Fetched got = fetched(kSize, {late.url("/m")});
  EXPECT_THAT(got.error->message, HasSubstr("429 Too Many Requests, retry after 60 s"));
  EXPECT_EQ(late.requests().size(), 1u);
}

// Otherwise each byte would reset the retries.
TEST(RemoteFileRetries, TooFewBytesBetweenRetriesAreNotProgress) {
  HttpServer drips([](const SeenRequest& request, Wire& wire) {
    const uint64_t from = request.range() ? request.range()->first : 0;
    wire.send(request.range()
                  ? fmt::format("HTTP/1.1 206 Partial\r\nContent-Range: bytes {}-{}/{}\r\nContent-Length: {}\r\n\r\n",
                                from, kSize - 1, kSize, kSize - from)
                  : head(kSize));
    wire.send(std::string_view(kBody).substr(from, 1));
    wire.close();
  });
  HttpServer good(serves(kBody));
  http::Options http = short_patience();
  http.min_speed = uint64_t{1} << 40;
  const auto file = file_at(kSize, {drips.url("/m")}, quick_retries(), http);
  EXPECT_THAT(fetched(*file).text(), HasSubstr(drips.url("/m") + ": truncated"));
  EXPECT_EQ(drips.requests().size(), 4u);
  EXPECT_EQ(fetched(*file_at(kSize, {drips.url("/m"), good.url("/m")}, quick_retries(), http)).text(), describe(kBody));
  EXPECT_EQ(drips.requests().size(), 5u);
}

TEST(RemoteFileRetries, OneBytePerRequestIsNotProgress) {
  HttpServer server([](const SeenRequest& request, Wire& wire) {
    const uint64_t from = request.range() ? request.range()->first : 0;
    if (request.range())
      return void(wire.send(answer("206 Partial Content", kBody.substr(from, 1),
                                   {fmt::format("Content-Range: bytes {}-{}/{}", from, from, kSize)})));
    wire.send(head(kSize) + kBody.substr(0, 1));
    wire.close();
  });
  http::Options http = short_patience();
  http.min_speed = uint64_t{1} << 40;
  EXPECT_THAT(fetched(*file_at(kSize, {server.url("/m")}, quick_retries(), http)).text(),
              HasSubstr("sends less than requested"));
  EXPECT_EQ(server.requests().size(), 6u);
}

// ---- other origins

TEST(RemoteFileRetries, RefusedConnectionIsNotWaitedForWhileOthersRemain) {
  HttpServer good(serves(kBody));
  RetryPolicy patient;
  patient.first_delay = patient.max_delay = std::chrono::hours(1'000'000);
  EXPECT_EQ(fetched(*file_at(kSize, {dead_url(), good.url("/m")}, patient)).text(), describe(kBody));
  EXPECT_EQ(good.requests().size(), 1u);
}

TEST(RemoteFileRetries, EveryOriginIsTriedOnceBeforeRetries) {
  HttpServer server(always(answer("503 No", "")));
  const Fetched got = fetched(kSize, {server.url("/a"), server.url("/b"), server.url("/c")});
  EXPECT_EQ(got.error->message, "model: " + server.url("/a") + ": 503 Service Unavailable; " + server.url("/b") +
                                    ": 503 Service Unavailable; " + server.url("/c") + ": 503 Service Unavailable");
  const auto requests = server.requests();
  ASSERT_EQ(requests.size(), 12u);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(requests[i].target, fmt::format("/{}", "abc"[i]));
}

TEST(RemoteFileRetries, RetryAfterDelaysNextRequest) {
  using Clock = std::chrono::steady_clock;
  std::mutex mutex;
  std::vector<Clock::time_point> request_times;
  HttpServer other(always(answer("503 No", "")));  // the delay is that of one server
  HttpServer server([&](const SeenRequest& request, Wire& wire) {
    const std::scoped_lock lock(mutex);
    request_times.push_back(Clock::now());
    request_times.size() == 1 ? static_cast<void>(wire.send(answer("429 No", "", {"Retry-After: 1"})))
                              : serve_file(request, wire, kBody);
  });
  EXPECT_EQ(fetched(kSize, {server.url("/a"), other.url("/b")}).text(), describe(kBody));
  ASSERT_EQ(request_times.size(), 2u);
  EXPECT_GE(request_times[1] - request_times[0], std::chrono::seconds(1));
  EXPECT_EQ(other.requests().size(), 4u);
}

TEST(RemoteFileRetries, OriginTriedAgainLaterKeepsItsEtag) {
  std::atomic<int> count = 0;
  HttpServer server([&](const SeenRequest& request, Wire& wire) {
    if (request.target == "/b") return void(wire.send(answer("404 No", "")));
    if (count++ == 1) return void(wire.send(answer("503 No", "")));
    if (count > 1) return serve_file(request, wire, kBody);
    wire.send(head(kSize, "ETag: \"e1\"\r\n") + kBody.substr(0, 1000));
    wire.close();
  });
  EXPECT_EQ(fetched(kSize, {server.url("/a"), server.url("/b")}).text(), describe(kBody));
  const auto requests = server.requests();
  ASSERT_EQ(requests.size(), 4u);
  EXPECT_EQ(requests[2].target, "/b");
  EXPECT_EQ(requests[3].header("if-match"), "\"e1\"");
}

TEST(RemoteFileRetries, DeniedRequestNamesCredentials) {
  HttpServer target(always(answer("403 Expired", "")));
  HttpServer server([&](const SeenRequest& request, Wire& wire) {
    if (request.target == "/away") return void(wire.send(answer("307 There", "", {"Location: " + target.url("/")})));
    wire.send(answer("401 No", "", {"WWW-Authenticate: Basic"}));
  });
  const auto credentials = std::make_shared<http::FixedCredentials>("", "tried anonymously: there is no docker config");
  const auto error_from = [&](const std::string& url) {
    const std::vector<Origin> origins = {{url, http::Trust::user, credentials}};
    const auto http = std::make_shared<http::DirectClient>(http::Options());
    RemoteFile file(http, "model", origins, std::nullopt, quick_retries());
    const std::string message = fetched(file).error->message;
    EXPECT_EQ(file.query_size(kNeverStop).error().message, message);
    return message;
  };
  EXPECT_EQ(error_from(server.url("/m")),
            "model: " + server.url("/m") + ": 401 Unauthorized (tried anonymously: there is no docker config)");
  EXPECT_EQ(error_from(server.url("/away")), "model: " + target.url("/") + ": 403 Forbidden");
}

TEST(RemoteFileRetries, DeniedRequestMovesToNextOriginAtOnce) {
  for (const char* status : {"404 No", "403 No", "401 No", "400 No", "204 Nothing"}) {
    HttpServer bad(always(answer(status, "", {"Content-Length: 0"})));
    HttpServer good(serves(kBody));
    const auto file = file_at(kSize, {bad.url("/m"), good.url("/m")});
    EXPECT_EQ(fetched(*file).text(), describe(kBody)) << status;
    EXPECT_EQ(file->printable(), good.url("/m"));
    EXPECT_EQ(bad.requests().size(), 1u);
    EXPECT_EQ(good.requests().size(), 1u);
  }
}

TEST(RemoteFileRetries, TwoOriginsCompleteOneBlob) {
  std::atomic<int> count = 0;
  HttpServer half([&](const SeenRequest&, Wire& wire) {
    if (count++ > 0) return void(wire.send(answer("404 Gone", "")));
    wire.send(head(kSize, "ETag: \"other\"\r\n") + kBody.substr(0, 123'456));
    wire.close();
  });
  HttpServer whole(serves(kBody));
  const auto file = file_at(kSize, {half.url("/m"), whole.url("/m")});
  EXPECT_EQ(fetched(*file).text(), describe(kBody));
  EXPECT_EQ(half.requests().size(), 2u);
  ASSERT_EQ(whole.requests().size(), 1u);
  EXPECT_EQ(whole.requests()[0].header("range"), "bytes=123456-299999");
  EXPECT_EQ(whole.requests()[0].header("if-match"), "");
  EXPECT_TRUE(file->reject(false));  // either may have been wrong: both are used again
  EXPECT_EQ(fetched(*file).text(), describe(kBody));
  EXPECT_TRUE(file->reject(false));  // now all of it came from one
  EXPECT_THAT(fetched(*file).text(), HasSubstr("404 Not Found"));
  EXPECT_FALSE(file->reject(false));
}

// The first origin sends the whole file, but not to its end; of the second one, only what the sink needs is requested.
TEST(RemoteFileRetries, RangeOfAnotherOriginEndsWhereTheSinkDoes) {
  HttpServer whole([](const SeenRequest&, Wire& wire) {
    wire.send(head(kSize) + kBody.substr(0, 100'000));
    wire.close();
  });
  HttpServer ranges(serves(kBody));
  const auto file = file_at(kSize, {whole.url("/m"), ranges.url("/m")});
  const auto sink = [](uint64_t offset, std::span<const std::byte> bytes) -> Result<bool> {
    return offset + bytes.size() < 200'000;
  };
  EXPECT_TRUE(file->fetch({50'000, 150'000}, sink, kNeverStop));
  EXPECT_EQ(ranges.requests().size(), 1u);
}

TEST(RemoteFileRetries, OriginOfWrongBytesIsNotUsedAgain) {
  HttpServer bad(serves(std::string(kSize, 'x')));
  HttpServer good(serves(kBody));
  const auto file = file_at(kSize, {bad.url("/m"), good.url("/m")});
  EXPECT_EQ(fetched(*file).text(), describe(std::string(kSize, 'x')));
  EXPECT_TRUE(file->reject(false));
  EXPECT_EQ(fetched(*file).text(), describe(kBody));
  EXPECT_FALSE(file->reject(false));
  EXPECT_EQ(bad.requests().size(), 1u);
  EXPECT_EQ(good.requests().size(), 1u);
}

TEST(RemoteFileRetries, ResumedBytesMayBeTheWrongOnes) {
  HttpServer server(serves(kBody));
  const auto file = file_at(kSize, {server.url("/m")});
  EXPECT_EQ(fetched(*file, 10).text(), describe(kBody.substr(10)));
  EXPECT_TRUE(file->reject(true));
  EXPECT_EQ(fetched(*file).text(), describe(kBody));
  EXPECT_FALSE(file->reject(false));
}

}  // namespace
}  // namespace weightfs::retry_test
