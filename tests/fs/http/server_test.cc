// Connections on loopback: what is sent, when a connection ends, and how many workers there are.
#include "fs/http/server.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "base/files/file_source.h"
#include "fs/http/transfer.h"
#include "tests/support/eventually.h"
#include "tests/support/temporary.h"

namespace weightfs::server_test {
namespace {

using namespace httpd;
using test::eventually;
using namespace std::chrono_literals;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

constexpr std::string_view kGet = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

Descriptor listening(uint16_t& port) {
  Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  if (::bind(socket.number(), reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      ::listen(socket.number(), 128) != 0 ||
      ::getsockname(socket.number(), reinterpret_cast<sockaddr*>(&address), &size) != 0)
    throw std::runtime_error("listen");
  port = ntohs(address.sin_port);
  return socket;
}

// A client that may be slow.
class Connection {
 public:
  explicit Connection(uint16_t port) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(port);
    if (::connect(socket_.number(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
      throw std::runtime_error("connect");
  }
  void send(std::string_view bytes) const { (void)!::send(socket_.number(), bytes.data(), bytes.size(), MSG_NOSIGNAL); }
  // At most `size` bytes; fewer at the end of the stream.
  std::string receive(size_t size) const {
    std::string out;
    std::array<char, 65536> buffer;
    while (out.size() < size) {
      pollfd ready{socket_.number(), POLLIN, 0};
      if (::poll(&ready, 1, 30'000) != 1) break;
      const ssize_t got = ::recv(socket_.number(), buffer.data(), std::min(buffer.size(), size - out.size()), 0);
      if (got <= 0) break;
      out.append(buffer.data(), static_cast<size_t>(got));
    }
    return out;
  }
  std::string rest() const { return receive(SIZE_MAX); }
  // Whether the connection ends by a reset, not by an end of the stream.
  bool is_reset() const {
    char byte = 0;
    ssize_t got = 0;
    while ((got = ::recv(socket_.number(), &byte, 1, 0)) > 0) {
    }
    return got < 0 && errno == ECONNRESET;
  }
  // Up to the end of the header.
  std::string header() const {
    std::string out;
    while (!out.ends_with("\r\n\r\n")) {
      const std::string next = receive(1);
      if (next.empty()) break;
      out += next;
    }
    return out;
  }

 private:
  Descriptor socket_;
};

class ServerTest : public testing::Test {
 protected:
  ServerTest() {
    options_.answer = [this](const Request& request, const Client&) { return answer_(request); };
    options_.refuse = [](const Refusal& refusal, const Request*) {
      Response response{refusal.status};
      response.body.emplace_back(refusal.message);
      return response;
    };
    options_.on_answered = [this](const Answered& answered) {
      const std::scoped_lock lock(mutex_);
      answered_.push_back(fmt::format("{} {} {}", answered.status, answered.bytes, answered.error.message));
    };
  }
  void start() {
    std::vector<Descriptor> sockets;
    sockets.push_back(listening(port_));
    server_ = std::make_unique<Server>(std::move(sockets), options_);
    server_->start();
  }
  std::vector<std::string> answered() {
    const std::scoped_lock lock(mutex_);
    return answered_;
  }
  Response file(const std::string& path, ByteRange range) {
    Response response;
    response.body.emplace_back(FilePart{std::make_shared<OpenFile>(1, open_file(path).value(), nullptr), range});
    return response;
  }

  std::function<Response(const Request&)> answer_ = [](const Request& request) {
    Response response;
    response.body.emplace_back("at " + request.target);
    return response;
  };
  ServerOptions options_;
  uint16_t port_ = 0;
  std::mutex mutex_;
  std::vector<std::string> answered_;
  std::unique_ptr<Server> server_;
};

TEST_F(ServerTest, AnswersPipelinedRequestsInOrder) {
  start();
  const Connection client(port_);
  client.send(
      "GET /1 HTTP/1.1\r\nHost: a\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\n\r\n"
      "GET /3 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
  const std::string all = client.rest();
  EXPECT_THAT(all, HasSubstr("\r\n\r\nat /1HTTP/1.1 200 OK"));
  EXPECT_THAT(all, HasSubstr("\r\n\r\nat /2HTTP/1.1 200 OK"));
  EXPECT_THAT(all, EndsWith("Connection: close\r\n\r\nat /3"));
}

TEST_F(ServerTest, WhatFollowsARefusedRequestIsNotAnswered) {
  start();
  const Connection client(port_);
  client.send(
      "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /2 HTTP/1.1\r\n"
      "Host: a\r\n\r\n");
  const std::string all = client.rest();
  EXPECT_THAT(all, StartsWith("HTTP/1.1 400 "));
  EXPECT_EQ(all.find("HTTP/1.1", 1), all.npos);
}

TEST_F(ServerTest, ABodyIsNeverTheNextRequest) {
  start();
  const Connection client(port_);
  client.send("GET /1 HTTP/1.1\r\nHost: a\r\nContent-Length: 27\r\n\r\n" + std::string(kGet));
  const std::string all = client.rest();
  EXPECT_THAT(all, EndsWith("at /1"));
  EXPECT_EQ(all.find("HTTP/1.1", 1), all.npos);
}

// The server reads a body that its site asks for, up to the site's limit.
class ServerBodyTest : public ServerTest {
 protected:
  ServerBodyTest() {
    options_.max_body = [](const Request& request) { return size_t{request.target == "/post" ? 10U : 0U}; };
    answer_ = [](const Request& request) {
      Response response;
      response.body.emplace_back(
          fmt::format("{} {}{}", request.target, request.body, request.has_body ? "(not read)" : ""));
      return response;
    };
    start();
  }
  static std::string post(const std::string& target, const std::string& field, const std::string& body) {
    return fmt::format("POST {} HTTP/1.1\r\nHost: a\r\n{}\r\n\r\n{}", target, field, body);
  }
};

// RFC 9110, section 10.1.1
TEST_F(ServerBodyTest, ClientThatWaitsWithItsBodyIsAnswered) {
  const Connection client(port_);
  client.send("POST /post HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(client.header(), "HTTP/1.1 100 Continue\r\n\r\n");
  client.send("hello");
  EXPECT_THAT(client.header(), StartsWith("HTTP/1.1 200 OK"));
  EXPECT_EQ(client.receive(11), "/post hello");
  const Connection other(port_);
  other.send("POST /other HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_THAT(other.rest(), EndsWith("/other (not read)"));
}

TEST_F(ServerBodyTest, BodyIsReadAndTheConnectionGoesOn) {
  const Connection client(port_);
  client.send(post("/post", "Content-Length: 10", "01234"));
  client.send("56789" + post("/post", "Content-Length: 2", "ab"));
  client.send("GET /end HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
  const std::string all = client.rest();
  EXPECT_THAT(all, HasSubstr("\r\n\r\n/post 0123456789HTTP/1.1 200"));
  EXPECT_THAT(all, HasSubstr("\r\n\r\n/post abHTTP/1.1 200"));
  EXPECT_THAT(all, EndsWith("\r\n\r\n/end "));
}

TEST_F(ServerBodyTest, BodyThatIsNotAskedForIsNotRead) {
  for (const auto& [target, length] :
       {std::pair("/post", "Content-Length: 11"), std::pair("/other", "Content-Length: 5"),
        std::pair("/post", "Transfer-Encoding: chunked")}) {
    const Connection client(port_);
    client.send(post(target, length, std::string(11, 'x')));
    const std::string all = client.rest();
    EXPECT_THAT(all, EndsWith(fmt::format("\r\n\r\n{} (not read)", target))) << length;
    EXPECT_THAT(all, HasSubstr("Connection: close")) << length;
  }
}

TEST_F(ServerBodyTest, HalfABodyIsNoRequest) {
  {
    const Connection client(port_);
    client.send(post("/post", "Content-Length: 10", "01234"));
  }
  {
    const Connection other(port_);
    other.send("GET /end HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    EXPECT_THAT(other.rest(), EndsWith("/end "));
  }
  EXPECT_TRUE(eventually([&] { return server_->status().connections == 0; }));
  EXPECT_EQ(answered().size(), 1U);
}

TEST_F(ServerTest, GeneratedBodiesAreChunked) {
  answer_ = [](const Request&) {
    Response response;
    response.body.emplace_back("begin");
    response.body.emplace_back(
        [left = 3]() mutable -> Result<std::string> { return left-- == 0 ? std::string() : std::string("piece"); });
    response.body.emplace_back("end");
    return response;
  };
  start();
  const Connection client(port_), old(port_);
  client.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
  EXPECT_THAT(client.rest(),
              EndsWith("\r\n\r\n5\r\nbegin\r\n5\r\npiece\r\n5\r\npiece\r\n5\r\npiece\r\n3\r\nend\r\n0\r\n\r\n"));
  old.send("GET / HTTP/1.0\r\n\r\n");
  EXPECT_THAT(old.rest(), EndsWith("\r\n\r\nbeginpiecepiecepieceend")) << "closed at the end";
}

TEST_F(ServerTest, AGeneratorThatFailsClosesWithoutTheLastChunk) {
  answer_ = [](const Request&) {
    Response response;
    response.body.emplace_back(std::string("begin"));
    response.body.emplace_back([]() -> Result<std::string> { return failure(Code::io, "disk on fire"); });
    return response;
  };
  start();
  const Connection client(port_);
  client.send(kGet);
  EXPECT_EQ(client.rest().find("0\r\n\r\n"), std::string::npos);
  EXPECT_TRUE(eventually([&] { return answered() == std::vector<std::string>{"200 0 disk on fire"}; }));
}

TEST_F(ServerTest, SlowReadersCostNoWorker) {
  const TemporaryDirectory folder;
  const std::string path = folder.write("large", std::string(64 << 20, 'x'));
  answer_ = [&](const Request& request) {
    if (request.target == "/large") return file(path, {0, 64 << 20});
    Response response;
    response.body.emplace_back("small");
    return response;
  };
  start();
  std::vector<std::unique_ptr<Connection>> slow;
  for (int i = 0; i < 100; ++i) {
    slow.push_back(std::make_unique<Connection>(port_));
    slow.back()->send("GET /large HTTP/1.1\r\nHost: a\r\n\r\n");
    slow.back()->send("GET /large HTTP/1.1\r\nHost: a\r\n\r\n");
  }
  const Connection fast(port_);
  fast.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
  EXPECT_THAT(fast.rest(), EndsWith("small"));
  EXPECT_LE(server_->status().workers, 50U);
  const std::string header = slow[0]->header();
  EXPECT_EQ(slow[0]->receive(64 << 20), std::string(64 << 20, 'x')) << "and are served to the end";
}

TEST_F(ServerTest, WorkersThatWaitAreReplaced) {
  std::mutex mutex;
  std::condition_variable released;
  bool is_released = false;
  answer_ = [&](const Request& request) {
    Response response;
    if (request.target == "/slow") {
      std::unique_lock lock(mutex);
      released.wait(lock, [&] { return is_released; });
    }
    response.body.emplace_back("done");
    return response;
  };
  start();
  std::vector<std::unique_ptr<Connection>> waiting;
  for (size_t i = 0; i < Workers::kMaxWaiting + 50; ++i) {
    waiting.push_back(std::make_unique<Connection>(port_));
    waiting.back()->send("GET /slow HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
  }
  // The last ones are refused.
  EXPECT_TRUE(eventually([&] { return answered().size() >= 4; }));
  for (const std::string& line : answered()) EXPECT_THAT(line, StartsWith("503 "));
  const size_t free = std::max(2U, std::thread::hardware_concurrency());
  // A worker that sent a refusal slowly was replaced too, and has ended since.
  EXPECT_GE(server_->status().workers, Workers::kMaxWaiting - free);
  EXPECT_LE(server_->status().workers, Workers::kMaxWaiting + 4 * free);
  {
    const std::scoped_lock lock(mutex);
    is_released = true;
  }
  released.notify_all();
  size_t done = 0;
  for (const auto& each : waiting) done += each->rest().ends_with("done") ? 1U : 0U;
  EXPECT_GE(done, Workers::kMaxWaiting - free);
  const auto is_small_again = [&] {
    const Connection client(port_);
    client.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    // Refused until the supervisor has counted those that wait no longer.
    return client.rest().ends_with("done") && server_->status().workers <= free + 1;
  };
  EXPECT_TRUE(eventually(is_small_again)) << server_->status().workers << " workers";
}

TEST_F(ServerTest, AFileThatChangesIsNeverComplete) {
  const TemporaryDirectory folder;
  constexpr size_t kSize = 32 << 20;
  const std::string path = folder.write("large", std::string(kSize, 'x'));
  answer_ = [&](const Request&) { return file(path, {0, kSize}); };
  start();
  const Connection client(port_);
  client.send(kGet);
  const std::string header = client.header();
  const std::string begin = client.receive(1 << 20);
  folder.write("large", std::string(kSize, 'y'));
  EXPECT_LT(begin.size() + client.rest().size(), kSize);
  EXPECT_TRUE(eventually([&] { return answered().size() == 1; }));
  EXPECT_THAT(answered()[0], HasSubstr("changed"));
}

TEST_F(ServerTest, ARangeOfAFileIsExact) {
  const TemporaryDirectory folder;
  std::string bytes;
  for (uint32_t i = 0; i < (1 << 20); ++i) bytes.append(reinterpret_cast<const char*>(&i), sizeof i);
  const std::string path = folder.write("numbers", bytes);
  ByteRange range{};
  answer_ = [&](const Request&) {
    Response response = file(path, range);
    EXPECT_TRUE(read_first(response));
    return response;
  };
  start();
  for (const ByteRange each :
       {ByteRange{0, 1}, {0, bytes.size()}, {3, 65539}, {65536, 131073}, {1, 3'000'001}, {4194300, 4194304}}) {
    range = each;
    const Connection client(port_);
    client.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    const std::string header = client.header();
    EXPECT_EQ(client.rest(), bytes.substr(each.from, each.to - each.from)) << each.from;
  }
}

TEST_F(ServerTest, SlowHeadersAreAnswered408) {
  options_.header = 0s;
  start();
  const Connection client(port_);
  client.send("GET / HTTP/1.1\r\nHos");
  EXPECT_TRUE(eventually([&] { return server_->status().connections == 1; }));
  std::string all;
  std::thread ticking([&] {
    for (int i = 0; i < 1000 && answered().empty(); ++i) {
      server_->tick();
      std::this_thread::sleep_for(1ms);
    }
  });
  all = client.rest();
  ticking.join();
  // A connection that had sent nothing yet when the clock ticked is closed without a response.
  EXPECT_THAT(all, testing::AnyOf("", StartsWith("HTTP/1.1 408 Request Timeout")));
}

TEST_F(ServerTest, SlowBodiesAreAnswered408) {
  options_.header = 1s;
  options_.max_body = [](const Request&) { return size_t{10}; };
  start();
  const Connection client(port_);
  client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(client.header(), "HTTP/1.1 100 Continue\r\n\r\n");
  client.send("HEAD");
  std::thread ticking([&] {
    for (int i = 0; i < 30'000 && answered().empty(); ++i) {
      server_->tick();
      std::this_thread::sleep_for(1ms);
    }
  });
  const std::string all = client.rest();
  ticking.join();
  EXPECT_THAT(all, StartsWith("HTTP/1.1 408 Request Timeout"));
  EXPECT_THAT(all, EndsWith("the body did not arrive in time"));
}

TEST_F(ServerTest, IdleConnectionsEnd) {
  options_.idle = 0s;
  start();
  const Connection client(port_);
  client.send(kGet);
  const std::string header = client.header();
  EXPECT_EQ(client.receive(4), "at /");
  std::thread ticking([&] {
    for (int i = 0; i < 1000 && server_->status().connections > 0; ++i) {
      server_->tick();
      std::this_thread::sleep_for(1ms);
    }
  });
  EXPECT_EQ(client.rest(), "");
  ticking.join();
}

TEST_F(ServerTest, TooManyConnectionsAreRejected) {
  options_.max_connections = 2;
  start();
  const Connection first(port_), second(port_);
  EXPECT_TRUE(eventually([&] { return server_->status().connections == 2; }));
  const Connection third(port_);
  EXPECT_THAT(third.rest(), StartsWith("HTTP/1.1 503 "));
  EXPECT_EQ(server_->status().rejected, 1U);
  first.send(kGet);
  EXPECT_THAT(first.header(), StartsWith("HTTP/1.1 200 "));
}

// Whatever a server or a parser takes, the client is not the slow one.
TEST_F(ServerTest, TimeOfTheServerIsNotThatOfTheClient) {
  std::atomic<bool> is_answering = false, is_released = false;
  answer_ = [&](const Request&) {
    is_answering = true;
    while (!is_released) std::this_thread::sleep_for(1ms);
    Response response;
    response.body.emplace_back("late");
    return response;
  };
  options_.header = options_.stalled = 0s;
  start();
  const Connection client(port_);
  client.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
  EXPECT_TRUE(eventually([&] { return is_answering.load(); }));
  for (int i = 0; i < 10; ++i) server_->tick();
  std::thread stopping([&] { EXPECT_TRUE(server_->stop(30s, [] {})); });
  EXPECT_TRUE(eventually([&] { return server_->status().connections == 1; }));
  is_released = true;
  EXPECT_THAT(client.rest(), EndsWith("late"));
  stopping.join();
}

TEST_F(ServerTest, ResponseThatIsCutIsReset) {
  answer_ = [](const Request&) {
    Response response;
    response.body.emplace_back([count = 0]() mutable -> Result<std::string> {
      if (++count > 3) return failure(Code::io, "disk on fire");
      return std::string(100'000, 'x');
    });
    return response;
  };
  start();
  const Connection client(port_);
  client.send("GET / HTTP/1.0\r\n\r\n");
  EXPECT_TRUE(client.is_reset()) << "an end would look complete";
}

TEST_F(ServerTest, EndlessBodyDelaysNobody) {
  start();
  std::atomic<bool> is_done = false;
  std::vector<std::thread> senders;
  for (int i = 0; i < 20; ++i)
    senders.emplace_back([&] {
      const Connection client(port_);
      client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999\r\n\r\n");
      const std::string piece(65536, 'x');
      while (!is_done) client.send(piece);
    });
  for (int i = 0; i < 20; ++i) {
    const Connection other(port_);
    other.send("GET /x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    EXPECT_THAT(other.rest(), EndsWith("at /x"));
  }
  is_done = true;
  for (std::thread& sender : senders) sender.join();
}

TEST_F(ServerTest, StopCompletesResponsesInProgress) {
  const TemporaryDirectory folder;
  constexpr size_t kSize = 64 << 20;
  const std::string path = folder.write("large", std::string(kSize, 'x'));
  answer_ = [&](const Request&) { return file(path, {0, kSize}); };
  start();
  const Connection idle(port_), client(port_);
  client.send(kGet);
  const std::string header = client.header();
  std::thread stopping([&] { EXPECT_TRUE(server_->stop(30s, [] {})); });
  EXPECT_EQ(idle.rest(), "") << "closed at once";
  EXPECT_EQ(client.rest().size(), kSize);
  stopping.join();
}

TEST_F(ServerTest, ExceptionsAreAnswered) {
  answer_ = [](const Request&) -> Response { throw std::bad_alloc(); };
  start();
  const Connection client(port_);
  client.send(kGet);
  EXPECT_THAT(client.header(), StartsWith("HTTP/1.1 503 "));
}

}  // namespace
}  // namespace weightfs::server_test
