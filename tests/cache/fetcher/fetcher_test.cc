#include "cache/fetcher.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <iterator>
#include <mutex>
#include <thread>
#include <tuple>
#include <vector>

#include "base/os/unix_socket.h"
#include "cache/fetcher/wire.h"
#include "tests/cache/http_fixture.h"
#include "tests/support/eventually.h"

namespace weightfs::fetcher_test {
namespace {

using namespace fetcher;
using namespace http_fixture;
using http::CredentialsName;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

constexpr int kForged = 3'000;
constexpr std::chrono::sys_seconds kReadAt{std::chrono::seconds(1'800'000'000)};
constexpr std::chrono::sys_seconds kExpiry{std::chrono::seconds(1'800'003'600)};

class FileOfKeys final : public http::Credentials {
 public:
  explicit FileOfKeys(std::string server) : server_(std::move(server)) {}
  std::string authorization() override { return "Bearer secret"; }
  std::string description() override { return "as " + server_; }
  http::KeyOrigin key_origin() override { return {"/home/me/keys", kReadAt, kExpiry}; }

 private:
  const std::string server_;
};

class RecordingGate final : public Gate {
 public:
  Result<Admitted> admit(const Asked& asked) override {
    {
      const std::scoped_lock lock(mutex_);
      asked_.push_back(asked);
    }
    while (is_held) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    if (asked.request.url.find("/refused") != std::string::npos) return failure(Code::forbidden, "refused");
    if (asked.credentials.kind == CredentialsName::Kind::none) return Admitted{nullptr, is_public_only};
    return Admitted{std::make_shared<FileOfKeys>(asked.credentials.server)};
  }
  void note_redirect(const Asked&, const http::Response& response) override {
    const std::scoped_lock lock(mutex_);
    redirects_.push_back(response.url);
  }
  std::atomic<bool> is_public_only = false;
  std::atomic<bool> is_held = false;
  std::vector<Asked> asked() {
    const std::scoped_lock lock(mutex_);
    return asked_;
  }
  std::vector<std::string> redirects() {
    const std::scoped_lock lock(mutex_);
    return redirects_;
  }

 private:
  std::mutex mutex_;
  std::vector<Asked> asked_;
  std::vector<std::string> redirects_;
};

// A client, and its fetcher in a thread.
class Fetched : public ::testing::Test {
 protected:
  Fetched() {
    std::array<int, 2> ends{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()), 0);
    theirs_ = Descriptor(ends[1]);
    raw_ = ends[0];
    client_ = std::make_shared<FetchedClient>(quick(), Descriptor(ends[0]));
    serving_ = std::thread([this] {
      serve_requests(theirs_.number(), std::make_shared<http::DirectClient>(quick()), gate_);
      has_ended_ = true;
    });
  }
  ~Fetched() override { end(); }

  void end() {
    client_ = nullptr;
    if (serving_.joinable()) serving_.join();
  }

  std::string send(const http::Request& request, const std::stop_token& stop = kNeverStop) {
    return describe(download::send_request(*client_, request, 1 << 24, stop));
  }

  // Sends any bytes as a request, with one end of a stream; the other end.
  Descriptor send_raw(const std::string& bytes) {
    std::array<int, 2> ends{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
    const Descriptor theirs(ends[1]);
    EXPECT_TRUE(send_message(raw_, bytes, theirs.number()));
    return Descriptor(ends[0]);
  }

  RecordingGate gate_;
  Descriptor theirs_;
  int raw_ = -1;
  std::shared_ptr<FetchedClient> client_;
  std::thread serving_;
  std::atomic<bool> has_ended_ = false;
};

TEST_F(Fetched, ResponseIsThatOfTheServer) {
  HttpServer server(always(answer("200 OK", "body", {"X-Thing: some value"})));
  const auto page = download::send_request(*client_, get(server.url("/a?q=1")), 100, kNeverStop);
  ASSERT_EQ(describe(page), "200 body");
  EXPECT_EQ(page->head.header("x-thing"), "some value");
  EXPECT_EQ(page->head.url, server.url("/a?q=1"));
  EXPECT_EQ(server.requests().at(0).header("authorization"), "");
}

TEST_F(Fetched, OriginOfKeysIsToldWithoutThem) {
  HttpServer server(always(answer("404 No", "")));
  http::Request request = get(server.url("/"));
  send(request);
  EXPECT_THAT(client_->keys(), IsEmpty());
  request.credentials = client_->credentials({CredentialsName::Kind::hub, server.url("")}).value();
  EXPECT_EQ(send(request), "404 ");
  const std::string origin = http::origin_of(server.url(""));
  EXPECT_THAT(client_->keys(), ElementsAre(Pair(origin, http::KeyOrigin{"/home/me/keys", kReadAt, kExpiry})));
}

TEST_F(Fetched, LargeBodyArrivesWhole) {
  std::string body(5'000'003, '\0');
  for (size_t i = 0; i < body.size(); ++i) body[i] = static_cast<char>(i * 31 >> 3);
  HttpServer server(always(answer("200 OK", body)));
  EXPECT_EQ(send(get(server.url("/"))), "200 " + body);
}

TEST_F(Fetched, RequestKeepsItsFields) {
  HttpServer server([](const SeenRequest& request, Wire& wire) { serve_file(request, wire, "0123456789"); });
  http::Request request = get(server.url("/"));
  request.headers = {"Range: bytes=2-4"};
  EXPECT_EQ(send(request), "206 234");
  request = get(server.url("/"), http::Trust::container);
  request.method = http::Request::Method::head;
  request.public_only = true;
  request.encoded = true;
  request.urgency = http::Urgency::ahead;
  EXPECT_THAT(send(request), HasSubstr("forbidden: "));  // loopback
  EXPECT_EQ(gate_.asked().at(0).request.urgency, http::Urgency::waited_for);
  const Asked last = gate_.asked().at(1);
  EXPECT_EQ(last.request.urgency, http::Urgency::ahead);
  EXPECT_EQ(last.request.trust, http::Trust::container);
  EXPECT_EQ(last.request.method, http::Request::Method::head);
  EXPECT_TRUE(last.request.public_only && last.request.encoded);
}

TEST_F(Fetched, DeferredRequestIsKnownAsSuch) {
  HttpServer server(always(answer("429 No", "", {"Retry-After: 60"})));
  EXPECT_EQ(send(get(server.url("/a"))), "429 ");
  const auto page = download::send_request(*client_, get(server.url("/b")), 100, kNeverStop);
  ASSERT_EQ(describe(page), "429 ");
  EXPECT_TRUE(page->head.is_deferred);
  EXPECT_EQ(page->head.header("retry-after"), "60");
  EXPECT_EQ(server.requests().size(), 1u);
}

// Before the response, too: then the request waits for its turn.
TEST_F(Fetched, WaitIsToldBeforeTheResponse) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()), 0);
  const Descriptor theirs(ends[1]);
  FetchedClient client(quick(), Descriptor(ends[0]));
  std::jthread fetcher([&] {
    const SocketMessage message = receive_message(theirs.number(), kMaxRequest + 1);
    const auto frame = [](Frame kind, const std::string& bytes) {
      return pack(FrameHeader{kind, static_cast<uint32_t>(bytes.size())}) + bytes;
    };
    const std::string all = frame(Frame::wait, "") +
                            frame(Frame::response, pack(Answered{{.status = 200, .url = "http://127.0.0.1:1/"}})) +
                            frame(Frame::end, pack(Ended{}));
    EXPECT_EQ(::send(message.descriptor.number(), all.data(), all.size(), 0), static_cast<ssize_t>(all.size()));
  });
  std::vector<std::string> calls;
  const auto note = [&](std::string call) -> Result<void> {
    calls.push_back(std::move(call));
    return {};
  };
  const http::ResponseHandler handler{[&](const http::Response&) { return note("response"); },
                                      [&](std::span<const std::byte>) { return note("body"); },
                                      [&] { return note("wait"); }};
  EXPECT_TRUE(client.perform(get("http://127.0.0.1:1/"), handler, kNeverStop));
  EXPECT_THAT(calls, ElementsAre("wait", "response"));
}

TEST_F(Fetched, CredentialsAreNamedAndNotKnown) {
  HttpServer server(always(answer("200 OK", "x")));
  http::Request request = get(server.url("/"));
  request.credentials = *client_->credentials({CredentialsName::Kind::hub, "https://hub.example"});
  EXPECT_EQ(request.credentials->authorization(), "");
  EXPECT_EQ(request.credentials->description(), "");
  EXPECT_EQ(send(request), "200 x");
  EXPECT_EQ(server.requests().at(0).header("authorization"), "Bearer secret");
  EXPECT_EQ(gate_.asked().at(0).credentials.server, "https://hub.example");
  EXPECT_EQ(request.credentials->description(), "as https://hub.example");
}

// The handler of a request that is given up early has them, too.
TEST_F(Fetched, DescriptionAndCountComeWithTheResponse) {
  HttpServer server(always(answer("403 Forbidden", "no")));
  http::Request request = get(server.url("/"));
  request.credentials = *client_->credentials({CredentialsName::Kind::hub, "https://hub.example"});
  std::string description;
  const http::ResponseHandler refuses{[&](const http::Response&) -> Result<void> {
                                        description = request.credentials->description();
                                        return failure(Code::forbidden, "enough");
                                      },
                                      [](std::span<const std::byte>) -> Result<void> { return {}; }};
  EXPECT_FALSE(client_->perform(request, refuses, kNeverStop));
  EXPECT_EQ(description, "as https://hub.example");
  EXPECT_EQ(client_->requests().size(), 1u);
}

TEST_F(Fetched, GateMayPermitPublicAddressesOnly) {
  HttpServer server(always(answer("200 OK", "x")));
  gate_.is_public_only = true;
  EXPECT_THAT(send(get(server.url("/"))), HasSubstr("forbidden: "));
  EXPECT_THAT(server.requests(), IsEmpty());
}

TEST_F(Fetched, RefusedRequestIsNotSent) {
  HttpServer server(always(answer("200 OK", "x")));
  EXPECT_EQ(send(get(server.url("/refused"))), "forbidden: refused");
  EXPECT_THAT(server.requests(), IsEmpty());
}

TEST_F(Fetched, ErrorsKeepTheirCodeAndName) {
  HttpServer server([](const SeenRequest&, Wire& wire) {
    wire.send("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\na");
    std::ignore = wire.pause(std::chrono::seconds(2));
  });
  const auto page = download::send_request(*client_, get(server.url("/")), 100, kNeverStop);
  ASSERT_FALSE(page);
  EXPECT_EQ(page.error().code, Code::network);
  EXPECT_TRUE(is_timeout(page.error())) << page.error().message;
}

TEST_F(Fetched, RedirectsAreNotedAndCounted) {
  HttpServer target(always(answer("200 OK", "x")));
  HttpServer server(always(answer("302 Found", "", {"Location: " + target.url("/there")})));
  EXPECT_EQ(send(get(server.url("/"))), "200 x");
  EXPECT_THAT(gate_.redirects(), ElementsAre(target.url("/there")));
  const auto counts = client_->requests();
  EXPECT_EQ(counts.size(), 2u);
  for (const auto& [origin, count] : counts) EXPECT_EQ(count, 1u) << origin;
}

TEST_F(Fetched, StopEndsARequestOnBothSides) {
  std::atomic<bool> was_closed = false;
  HttpServer server([&](const SeenRequest&, Wire& wire) {
    wire.send("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\na");
    while (wire.pause(std::chrono::milliseconds(20))) {
    }
    was_closed = true;
  });
  std::stop_source stop;
  std::jthread stopping([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    stop.request_stop();
  });
  EXPECT_THAT(send(get(server.url("/")), stop.get_token()), HasSubstr("network: "));
  EXPECT_TRUE(test::eventually([&] { return was_closed.load(); }));
}

// As a token server that does not respond: the fetcher notices a deadline only while it sends the request itself.
TEST_F(Fetched, DeadlineEndsARequestThatWaitsForKeys) {
  gate_.is_held = true;
  http::Request request = get("http://127.0.0.1:1/?secret");
  request.deadline = std::chrono::steady_clock::now() - std::chrono::seconds(2);
  const auto page = download::send_request(*client_, request, 100, kNeverStop);
  gate_.is_held = false;
  ASSERT_FALSE(page);
  EXPECT_TRUE(is_timeout(page.error()));
  EXPECT_EQ(page.error().message, "http://127.0.0.1:1/: timed out");
}

TEST_F(Fetched, HandlerErrorIsThatOfTheRequest) {
  HttpServer server(always(answer("200 OK", "12345")));
  const http::ResponseHandler refuses{
      [](const http::Response&) -> Result<void> { return failure(Code::mismatch, "not this"); },
      [](std::span<const std::byte>) -> Result<void> { return {}; }};
  const auto ended = client_->perform(get(server.url("/")), refuses, kNeverStop);
  ASSERT_FALSE(ended);
  EXPECT_EQ(ended.error().message, "not this");
}

TEST_F(Fetched, ManyRequestsAtOnceAreAnswered) {
  HttpServer server([](const SeenRequest& request, Wire& wire) { wire.send(answer("200 OK", request.target)); });
  std::vector<std::thread> threads;
  std::atomic<int> right = 0;
  for (int i = 0; i < 32; ++i)
    threads.emplace_back(
        [&, i] { right += send(get(server.url(fmt::format("/{}", i)))) == fmt::format("200 /{}", i); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, 32);
}

TEST_F(Fetched, MalformedRequestsAreRefused) {
  const std::string valid = pack(Asked{get("http://127.0.0.1:1/")});
  std::vector<std::string> forged = {"x", std::string(8, '\xff'), valid + "x", std::string(kMaxRequest, '\0')};
  for (size_t size = 1; size < valid.size(); size += 7) forged.push_back(valid.substr(0, size));
  for (const std::string& bytes : forged) {
    const Descriptor stream = send_raw(bytes);
    std::string got;
    std::array<char, 4096> buffer{};
    for (ssize_t size = 0; (size = ::recv(stream.number(), buffer.data(), buffer.size(), 0)) > 0;)
      got.append(buffer.data(), static_cast<size_t>(size));
    ASSERT_GT(got.size(), kFrameHeader);
    const auto header = unpack_header(std::string_view(got).substr(0, kFrameHeader));
    ASSERT_TRUE(header && header->kind == Frame::end);
    const auto ended = unpack_end(std::string_view(got).substr(kFrameHeader));
    ASSERT_TRUE(ended && ended->error);
    EXPECT_EQ(ended->error->message, "malformed request");
  }
  EXPECT_THAT(gate_.asked(), IsEmpty());
}

// A message without a stream, and with what is none.
TEST_F(Fetched, OtherDescriptorsAreNoStreams) {
  HttpServer server(always(answer("200 OK", "x")));
  const std::string request = pack(Asked{get(server.url("/"))});
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe2(pipe.data(), O_CLOEXEC), 0);
  const std::array others{Descriptor(pipe[0]),
                          Descriptor(pipe[1]),
                          Descriptor(::open("/dev/null", O_RDWR | O_CLOEXEC)),
                          Descriptor(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC)),
                          Descriptor(::open("/", O_PATH | O_CLOEXEC)),
                          Descriptor(::eventfd(0, EFD_CLOEXEC)),
                          Descriptor(::memfd_create("m", MFD_CLOEXEC)),
                          Descriptor(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)),
                          Descriptor(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)),
                          Descriptor(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0))};
  EXPECT_TRUE(send_message(raw_, request));
  for (const Descriptor& other : others) EXPECT_TRUE(send_message(raw_, request, other.number()));
  EXPECT_EQ(send(get(server.url("/"))), "200 x");
}

TEST_F(Fetched, ManyForgedMessagesHoldNothing) {
  HttpServer server(always(answer("200 OK", "x")));
  const auto descriptors = [] { return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {}); };
  EXPECT_EQ(send(get(server.url("/"))), "200 x");
  const auto before = descriptors();
  for (int i = 0; i < kForged; ++i) {
    const Descriptor stream = send_raw("forged");
    std::array<char, 512> answer{};
    EXPECT_GT(::recv(stream.number(), answer.data(), answer.size(), 0), 0);
  }
  EXPECT_EQ(send(get(server.url("/"))), "200 x");
  EXPECT_TRUE(test::eventually([&] { return descriptors() <= before; }));
}

// The answer is not read, and the stream is not closed.
TEST_F(Fetched, FetcherEndsAlsoIfItHoldsBothEndsOfAStream) {
  HttpServer server(always(answer("200 OK", std::string(4 << 20, 'x'))));
  const std::string bytes = pack(Asked{get(server.url("/"))});
  std::array<int, 2> ends{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
  {
    const Descriptor one(ends[0]), other(ends[1]);
    ASSERT_TRUE(send_message(raw_, bytes, one.number()));
    ASSERT_TRUE(send_message(raw_, bytes, other.number()));
  }
  EXPECT_TRUE(test::eventually([&] { return server.requests().size() == 2; }));
  end();
  EXPECT_TRUE(has_ended_);
}

TEST_F(Fetched, MoreRequestsThanAtOnceWait) {
  gate_.is_held = true;
  std::vector<std::thread> threads;
  std::atomic<size_t> right = 0;
  for (size_t i = 0; i < kMaxRequests + 20; ++i)
    threads.emplace_back([&] { right += send(get("http://127.0.0.1:1/refused")) == "forbidden: refused"; });
  EXPECT_TRUE(test::eventually([&] { return gate_.asked().size() == kMaxRequests; }));
  gate_.is_held = false;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, kMaxRequests + 20);
}

TEST_F(Fetched, FetcherEndsWithItsClient) {
  end();
  EXPECT_TRUE(has_ended_);
}

TEST(FetchedClient, FetcherThatHasEndedIsAnError) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()), 0);
  FetchedClient client(quick(), Descriptor(ends[0]));
  std::ignore = Descriptor(ends[1]);
  EXPECT_THAT(describe(download::send_request(client, get("https://a.example/"), 9, kNeverStop)),
              HasSubstr("io: the process that downloads has ended"));
}

TEST(FetchedClient, UrlThatIsNeverFetchedCostsNoMessage) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()), 0);
  FetchedClient client(quick(), Descriptor(ends[0]));
  const Descriptor theirs(ends[1]);  // answers nothing
  for (const char* url : {"file:///etc/passwd", "ftp://a/b", "http://u:p@a/"})
    EXPECT_THAT(describe(download::send_request(client, get(url), 9, kNeverStop)), HasSubstr("unsupported: ")) << url;
  pollfd ready{theirs.number(), POLLIN, 0};
  EXPECT_EQ(::poll(&ready, 1, 0), 0);
}

TEST(FetchedClient, AnswersOutOfOrderAreRefused) {
  const std::string body = pack(FrameHeader{Frame::body, 1}) + "x";
  const std::string head = pack(Answered{{.status = 200, .url = "https://a.example/"}});
  const std::string response = pack(FrameHeader{Frame::response, static_cast<uint32_t>(head.size())}) + head;
  for (const std::string& answer : {body, response + response, pack(FrameHeader{Frame{9}, 0}),
                                    pack(FrameHeader{Frame::body, kMaxFrame + 1}), pack(FrameHeader{Frame::end, 0})}) {
    std::array<int, 2> ends{};
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()), 0);
    const Descriptor theirs(ends[1]);
    FetchedClient client(quick(), Descriptor(ends[0]));
    std::jthread answering([&] {
      const SocketMessage asked = receive_message(theirs.number(), kMaxRequest);
      std::ignore = ::send(asked.descriptor.number(), answer.data(), answer.size(), MSG_NOSIGNAL);
    });
    EXPECT_THAT(describe(download::send_request(client, get("https://a.example/"), 9, kNeverStop)),
                HasSubstr("corrupt: "));
  }
}

}  // namespace
}  // namespace weightfs::fetcher_test
