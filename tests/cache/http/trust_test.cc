// Redirects, address policy, credentials and proxies of HTTP requests.
#include <fmt/core.h>

#include <cstdlib>
#include <stop_token>

#include "tests/cache/http_fixture.h"

namespace weightfs::http_trust_test {
namespace {

using namespace http;
using namespace http_fixture;
using ::testing::HasSubstr;
using ::testing::Not;

// ---- redirects

TEST(HttpClient, EveryRedirectStatusIsFollowed) {
  HttpServer server([](const SeenRequest& request, Wire& wire) {
    if (request.target == "/0") return void(wire.send(answer("301 Moved", "x", {"Location: 1"})));
    if (request.target == "/1") return void(wire.send(answer("302 Found", "", {"Location: /2"})));
    if (request.target == "/2") return void(wire.send(answer("303 See Other", "", {"Location: ?q=3"})));
    if (request.target == "/2?q=3")
      return void(wire.send(answer("307 Temporary", "", {"Location: //" + request.header("host") + "/4"})));
    if (request.target == "/4") return void(wire.send(answer("308 Permanent", "", {"Location: /a b"})));
    wire.send(answer("200 OK", request.target));
  });
  DirectClient http(quick());
  const auto page = download::send_request(http, get(server.url("/0")), 100, kNeverStop);
  ASSERT_EQ(describe(page), "200 /a%20b");
  EXPECT_EQ(page->head.url, server.url("/a%20b"));
  EXPECT_EQ(server.requests().size(), 6u);
}

TEST(HttpClient, RedirectWithoutLocationIsDeliveredAsResponse) {
  HttpServer server(always(answer("302 Found", "where?")));
  EXPECT_EQ(send(get(server.url("/"))), "302 where?");
}

TEST(HttpClient, RedirectLoopEndsAfterTen) {
  HttpServer server(always(answer("302 Found", "", {"Location: /again"})));
  EXPECT_THAT(send(get(server.url("/"))),
              HasSubstr("unsupported: " + server.url("/again") + ": more than 10 redirects"));
  EXPECT_EQ(server.requests().size(), 11u);
}

// Credentials of which there are `more`.
class RenewableCredentials final : public http::Credentials {
 public:
  explicit RenewableCredentials(int more) : more_(more) {}
  std::string authorization() override { return fmt::format("Key {}", generation_); }
  uint64_t generation() override { return generation_; }
  bool read_again(uint64_t sent, const std::stop_token& /*stop*/) override {
    if (sent == generation_ && more_-- > 0) ++generation_;
    return sent != generation_;
  }

 private:
  int more_;
  uint64_t generation_ = 1;
};

TEST(HttpClient, RefusedKeysAreReadAgainOnce) {
  HttpServer server(always(answer("403 Forbidden", "no")));
  http::Request request = get(server.url("/"));
  for (const auto& [more, requests] : {std::pair(0, 1u), std::pair(1, 2u), std::pair(9, 2u)}) {
    const size_t before = server.requests().size();
    request.credentials = std::make_shared<RenewableCredentials>(more);
    EXPECT_EQ(send(request), "403 no");
    EXPECT_EQ(server.requests().size() - before, requests) << more;
    EXPECT_EQ(server.requests().back().header("authorization"), fmt::format("Key {}", requests));
  }
}

TEST(HttpClient, LongTextOfARefusalIsCut) {
  HttpServer server(always(answer("403 Forbidden", std::string(1 << 20, 'x'))));
  http::Request request = get(server.url("/"));
  request.credentials = std::make_shared<RenewableCredentials>(0);
  EXPECT_THAT(send(request), testing::StartsWith("403 xxx"));
}

TEST(HttpClient, RedirectToOtherSchemeIsRefused) {
  for (const char* location : {"file:///etc/passwd", "ftp://127.0.0.1/", "gopher://127.0.0.1:70/"}) {
    HttpServer server(always(answer("302 Found", "", {fmt::format("Location: {}", location)})));
    EXPECT_THAT(send(get(server.url("/"))), HasSubstr("only http and https are supported")) << location;
    EXPECT_EQ(server.requests().size(), 1u);
  }
}

TEST(HttpClient, RedirectFromHttpsToHttpIsRefused) {
  EXPECT_FALSE(may_redirect("https://a/", "http://a/"));
  EXPECT_FALSE(may_redirect("HTTPS://a/", "HTTP://b/"));
  EXPECT_TRUE(may_redirect("https://a/", "https://b/"));
  EXPECT_TRUE(may_redirect("http://a/", "https://a/"));
  EXPECT_TRUE(may_redirect("http://a/", "http://b/"));
}

TEST(HttpClient, HugeRedirectBodyIsNotRead) {
  HttpServer server([](const SeenRequest& request, Wire& wire) {
    if (request.target == "/there") return void(wire.send(answer("200 OK", "there")));
    wire.send("HTTP/1.1 302 Found\r\nLocation: /there\r\nContent-Length: 1000000000000\r\n\r\n");
    while (wire.send(std::string(10'000, 'x'))) {
    }
  });
  EXPECT_EQ(send(get(server.url("/"))), "200 there");
}

// ---- addresses

TEST(HttpClient, ContainerCannotReachLoopbackInAnyNotation) {
  HttpServer server(always(answer("200 OK", "secret")));
  for (const char* host : {"127.0.0.1", "127.1", "0x7f.1", "2130706433", "0177.0.0.1", "localhost", "localhost.",
                           "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "0.0.0.0", "[::]", "[::1]"}) {
    const std::string url = fmt::format("http://{}:{}/", host, server.port());
    EXPECT_THAT(send(get(url, Trust::container)), HasSubstr("forbidden: ")) << host;
    EXPECT_THAT(send(get(url, Trust::container)), HasSubstr("--allow-private-urls")) << host;
  }
  EXPECT_THAT(send(get("http://169.254.169.254/", Trust::container)),
              HasSubstr("169.254.169.254 is a link-local address"));
  EXPECT_EQ(server.requests().size(), 0u);
  EXPECT_EQ(send(get(server.url("/"), Trust::container), private_allowed()), "200 secret");
}

TEST(HttpClient, ContainerCannotReuseConnectionToPrivateAddress) {
  HttpServer server(always(answer("200 OK", "secret")));
  DirectClient http(quick());
  EXPECT_EQ(describe(download::send_request(http, get(server.url("/")), 100, kNeverStop)), "200 secret");
  EXPECT_THAT(describe(download::send_request(http, get(server.url("/"), Trust::container), 100, kNeverStop)),
              HasSubstr("forbidden: "));
  EXPECT_EQ(server.requests().size(), 1u);
}

TEST(HttpClient, PublicRedirectMustStayPublic) {
  HttpServer server(always(answer("200 OK", "secret")));
  Request request = get(server.url("/"));
  request.public_only = true;
  EXPECT_THAT(send(request), HasSubstr("forbidden: "));
  EXPECT_EQ(server.requests().size(), 0u);
}

TEST(HttpClient, PlainHttpIsLoopbackOnlyUnlessInsecure) {
  EXPECT_THAT(send(get("http://192.0.2.1/")),
              HasSubstr("forbidden: http://192.0.2.1/: plain http to 192.0.2.1 refused; use https or --insecure"));
}

TEST(HttpClient, OnlyHttpAndHttpsAreAllowed) {
  EXPECT_EQ(send(get("file:///etc/passwd?q")), "unsupported: file:///etc/passwd: only http and https are supported");
  for (const char* const url : {"http://127.0.0.1:70000/m", "https://[::1]:70000", "HTTP://user@host.example:70000?q"})
    EXPECT_EQ(send(get(url)), "unsupported: invalid URL: its port 70000 is above 65535") << url;
  EXPECT_THAT(send(get("nothing at all\x01")), HasSubstr("unsupported: "));
  EXPECT_THAT(send(get("")), HasSubstr("unsupported: "));
}

TEST(HttpClient, UserAndPasswordInUrlAreRejectedAndNotShown) {
  HttpServer server(always(answer("200 OK", "")));
  for (const Trust trust : {Trust::user, Trust::container}) {
    const std::string message = send(get(fmt::format("http://me:secret@127.0.0.1:{}/a?token=1", server.port()), trust));
    EXPECT_THAT(message, HasSubstr("URLs with user or password are not supported"));
    EXPECT_THAT(message, Not(HasSubstr("secret")));
    EXPECT_THAT(message, Not(HasSubstr("token")));
  }
  EXPECT_EQ(server.requests().size(), 0u);
}

// ---- credentials

class Token final : public Credentials {
 public:
  std::string authorization() override { return value; }
  Result<bool> on_unauthorized(const Response& response, const SentKeys& rejected, const std::stop_token&) override {
    seen.clear();
    for (const auto& [name, text] : response.headers)
      if (name == "www-authenticate") seen.push_back(text);
    sent = rejected.authorization;
    from_public = response.from_public;
    ++times;
    if (next.empty()) return false;
    value = next;
    return true;
  }
  std::string value;
  std::string next;
  std::vector<std::string> seen;
  std::string sent;
  bool from_public = false;
  int times = 0;
};

HttpServer::Handler wants(const std::string& authorization) {
  return [=](const SeenRequest& request, Wire& wire) {
    if (request.header("authorization") == authorization) return void(wire.send(answer("200 OK", "in")));
    wire.send(answer("401 Unauthorized", "out", {"WWW-Authenticate: Bearer realm=\"r\"", "WWW-Authenticate: Basic"}));
  };
}

Request with(Request request, std::shared_ptr<Credentials> credentials) {
  request.credentials = std::move(credentials);
  return request;
}

TEST(HttpClient, ChallengeIsAnsweredOnce) {
  HttpServer server(wants("Bearer new"));
  const auto token = std::make_shared<Token>();
  token->value = "Bearer old";
  token->next = "Bearer new";
  EXPECT_EQ(send(with(get(server.url("/")), token)), "200 in");
  EXPECT_EQ(token->sent, "Bearer old");
  EXPECT_EQ(token->seen, (std::vector<std::string>{"Bearer realm=\"r\"", "Basic"}));
  EXPECT_EQ(server.requests().size(), 2u);
  token->value = "Bearer older";
  token->next = "Bearer wrong";
  EXPECT_EQ(send(with(get(server.url("/")), token)), "401 out");
  EXPECT_EQ(server.requests().size(), 4u);
}

TEST(HttpClient, UnansweredChallengeIsDeliveredAsResponse) {
  HttpServer server(wants("Bearer new"));
  const auto token = std::make_shared<Token>();
  EXPECT_EQ(send(with(get(server.url("/")), token)), "401 out");
  EXPECT_EQ(token->times, 1);
  EXPECT_EQ(server.requests().size(), 1u);
  EXPECT_EQ(send(get(server.url("/"))), "401 out");
}

TEST(HttpClient, CredentialsAreNotSentToAnotherPort) {
  HttpServer other(wants("Bearer it"));
  HttpServer server([&](const SeenRequest& request, Wire& wire) {
    wire.send(answer("307 Temporary", "", {"Location: " + (request.target == "/" ? "/next" : other.url("/"))}));
  });
  const auto token = std::make_shared<Token>();
  token->value = "Bearer it";
  EXPECT_EQ(send(with(get(server.url("/")), token)), "401 out");
  ASSERT_EQ(server.requests().size(), 2u);
  for (const SeenRequest& request : server.requests()) EXPECT_EQ(request.header("authorization"), "Bearer it");
  ASSERT_EQ(other.requests().size(), 1u);
  EXPECT_EQ(other.requests()[0].headers.count("authorization"), 0u);
  EXPECT_EQ(token->times, 0);
}

TEST(HttpClient, LineBreakInCredentialIsRejected) {
  HttpServer server(wants(""));
  const auto token = std::make_shared<Token>();
  token->value = "Bearer x\r\nHost: evil";
  EXPECT_THAT(send(with(get(server.url("/")), token)), HasSubstr("corrupt: "));
  EXPECT_EQ(server.requests().size(), 0u);
}

// ---- proxies

class HttpProxy : public ::testing::Test {
 protected:
  void TearDown() override {
    for (const char* name : {"http_proxy", "no_proxy"}) ::unsetenv(name);
  }
  HttpServer proxy_{always(answer("200 OK", "by proxy"))};
  HttpServer server_{always(answer("200 OK", "directly"))};
};

TEST_F(HttpProxy, ResolvesHostNames) {
  ::setenv("http_proxy", proxy_.url("").c_str(), 1);
  EXPECT_EQ(send(get("http://model.example/x", Trust::container)), "200 by proxy");
  ASSERT_EQ(proxy_.requests().size(), 1u);
  EXPECT_EQ(proxy_.requests()[0].target, "http://model.example/x");
}

TEST_F(HttpProxy, CannotReachPrivateAddressLiteral) {
  ::setenv("http_proxy", proxy_.url("").c_str(), 1);
  for (const char* host : {"10.0.0.1", "0x7f.1", "localhost", "[::1]"})
    EXPECT_THAT(send(get(fmt::format("http://{}/", host), Trust::container)), HasSubstr("forbidden: ")) << host;
  EXPECT_THAT(send(get("http://model.example/")), HasSubstr("--insecure"));
  EXPECT_EQ(proxy_.requests().size(), 0u);
}

TEST_F(HttpProxy, IsBypassedForNoProxyHosts) {
  ::setenv("http_proxy", proxy_.url("").c_str(), 1);
  EXPECT_EQ(send(get(server_.url("/"))), "200 by proxy");
  ::setenv("no_proxy", "example.com,127.0.0.0/8", 1);
  EXPECT_EQ(send(get(server_.url("/"))), "200 directly");
  EXPECT_EQ(proxy_.requests().size(), 1u);
  EXPECT_EQ(server_.requests().size(), 1u);
}

TEST_F(HttpProxy, ChallengeRecordsWhetherAddressWasPublic) {
  HttpServer denies(wants("Bearer it"));
  Options insecure = quick();
  insecure.insecure = true;
  const auto token = std::make_shared<Token>();
  EXPECT_EQ(send(with(get(denies.url("/")), token), insecure), "401 out");
  EXPECT_FALSE(token->from_public);
  ::setenv("http_proxy", denies.url("").c_str(), 1);
  EXPECT_EQ(send(with(get("http://model.example/"), token), insecure), "401 out");
  EXPECT_TRUE(token->from_public);
  EXPECT_EQ(token->times, 2);
}

TEST_F(HttpProxy, PublicNameCannotRedirectToPrivateAddress) {
  HttpServer leads(
      [](const SeenRequest&, Wire& wire) { wire.send(answer("302 Found", "", {"Location: http://10.0.0.1/"})); });
  ::setenv("http_proxy", leads.url("").c_str(), 1);
  Options insecure = quick();
  insecure.insecure = true;
  EXPECT_THAT(send(get("http://model.example/"), insecure),
              HasSubstr("redirects from public addresses must have public addresses"));
  EXPECT_EQ(leads.requests().size(), 1u);
}

}  // namespace
}  // namespace weightfs::http_trust_test
