// Requests for the user's keys: methods, addresses, proxies and redirects, and credentials that are obtained first.
#include <cstdlib>
#include <stop_token>

#include "cache/address_policy.h"
#include "cache/http/exchange.h"
#include "tests/cache/http_fixture.h"

namespace weightfs::http_purpose_test {
namespace {

using namespace http;
using namespace http_fixture;
using ::testing::HasSubstr;

Request for_keys(const std::string& url, Purpose purpose = Purpose::keys) {
  Request request = get(url);
  request.purpose = purpose;
  return request;
}

TEST(HttpPurpose, MetadataAddressesAreTheseFiveOnly) {
  for (const char* const address :
       {"169.254.169.254", "169.254.170.2", "169.254.170.23", "fd00:ec2::254", "fd00:ec2::23"}) {
    EXPECT_TRUE(is_metadata_address(*literal_address(address))) << address;
    EXPECT_EQ((AddressPolicy{.loopback_only = true, .metadata = true}.refusal(literal_address(address))), "");
    EXPECT_NE((AddressPolicy{.loopback_only = true}.refusal(literal_address(address))), "");
  }
  for (const AddressPolicy& policy : {AddressPolicy{.loopback_only = true}, AddressPolicy{.public_only = true}})
    EXPECT_NE(policy.refusal(literal_address("169.254.129.5")), "");
  EXPECT_EQ((AddressPolicy{.loopback_only = true, .metadata = true}.refusal(literal_address("169.254.129.5"))), "");
  EXPECT_NE((AddressPolicy{.loopback_only = true, .metadata = true}.refusal(literal_address("10.0.0.1"))), "");
  for (const char* const address : {"169.254.169.253", "169.254.170.1", "127.0.0.1", "10.0.0.1", "fd00:ec2::24"})
    EXPECT_FALSE(is_metadata_address(*literal_address(address))) << address;
}

TEST(HttpPurpose, ContentNeverReachesMetadata) {
  EXPECT_THAT(send(get("http://169.254.169.254/latest/api/token")), HasSubstr("forbidden: "));
  EXPECT_THAT(send(for_keys("http://169.254.169.254/latest/api/token")), HasSubstr("forbidden: "));
}

// Whatever --insecure permits to content.
TEST(HttpPurpose, PlainHttpForMetadataReachesNoOtherAddress) {
  Options insecure = quick();
  insecure.insecure = true;
  EXPECT_THAT(send(for_keys("http://10.0.0.1/", Purpose::metadata), insecure),
              HasSubstr("forbidden: http://10.0.0.1/: plain http to 10.0.0.1 refused"));
}

TEST(HttpPurpose, RedirectOfARequestForKeysIsRefused) {
  HttpServer server(always(answer("302 Found", "", {"Location: /elsewhere"})));
  for (const Purpose purpose : {Purpose::keys, Purpose::metadata})
    EXPECT_THAT(send(for_keys(server.url("/"), purpose)), HasSubstr("redirect of a request for keys"));
  EXPECT_EQ(server.requests().size(), 2u);
}

class SignatureInQuery final : public Credentials {
 public:
  std::string query() override { return "sig=secret"; }
};

TEST(HttpPurpose, RedirectThatMayRepeatASignatureIsRefused) {
  HttpServer other(always(answer("200 OK", "x")));
  HttpServer server([&](const SeenRequest& request, Wire& wire) {
    wire.send(answer("302 Found", "", {"Location: " + other.url(request.target)}));
  });
  Request request = get(server.url("/blob"));
  request.credentials = std::make_shared<SignatureInQuery>();
  const std::string outcome = send(request);
  EXPECT_THAT(outcome, HasSubstr("redirect of a request with a signature in its URL"));
  EXPECT_THAT(outcome, ::testing::Not(HasSubstr("secret")));
  EXPECT_EQ(server.requests()[0].target, "/blob?sig=secret");
  EXPECT_TRUE(other.requests().empty());
}

TEST(HttpPurpose, MetadataIsNotRequestedThroughAProxy) {
  HttpServer proxy(always(answer("200 OK", "by proxy")));
  HttpServer server(always(answer("200 OK", "directly")));
  ::setenv("http_proxy", proxy.url("").c_str(), 1);
  EXPECT_EQ(send(for_keys(server.url("/"))), "200 by proxy");
  EXPECT_EQ(send(for_keys(server.url("/"), Purpose::metadata)), "200 directly");
  ::unsetenv("http_proxy");
  EXPECT_EQ(proxy.requests().size(), 1u);
}

TEST(HttpPurpose, MethodsAreSentAsTheyAre) {
  HttpServer server([](const SeenRequest&, Wire& wire) {
    wire.send(answer("200 OK", "x", {"Connection: close"}));
    wire.close();
  });
  Request request = for_keys(server.url("/put"));
  request.method = Request::Method::put;
  EXPECT_EQ(send(request), "200 x");
  request = for_keys(server.url("/post"));
  request.method = Request::Method::post;
  request.body = "a=b";
  EXPECT_EQ(send(request), "200 x");
  EXPECT_EQ(server.requests()[0].method, "PUT");
  EXPECT_EQ(server.requests()[1].method, "POST");
  EXPECT_EQ(server.requests()[1].header("content-length"), "3");
}

// Keys that are obtained before they are used, or cannot be.
class PreparedCredentials final : public Credentials {
 public:
  Result<void> prepare(const std::stop_token& /*stop*/) override {
    ++prepared;
    if (fails) return failure(Code::network, "no keys");
    return {};
  }
  std::string authorization() override { return "Key " + std::to_string(prepared); }
  uint64_t generation() override { return 1; }

  int prepared = 0;
  bool fails = false;
};

TEST(HttpPurpose, CredentialsArePreparedBeforeEachExchangeOfTheirOrigin) {
  HttpServer other(always(answer("200 OK", "x")));
  HttpServer server([&](const SeenRequest& request, Wire& wire) {
    const std::string next = request.target == "/" ? "/second" : other.url("/");
    wire.send(answer("302 Found", "", {"Location: " + next}));
  });
  const auto credentials = std::make_shared<PreparedCredentials>();
  Request request = get(server.url("/"));
  request.credentials = credentials;
  EXPECT_EQ(send(request), "200 x");
  EXPECT_EQ(credentials->prepared, 2);
  EXPECT_EQ(server.requests()[0].header("authorization"), "Key 1");
  credentials->fails = true;
  EXPECT_EQ(send(request), "network: no keys");
  EXPECT_EQ(server.requests().size(), 2u);
}

// An object store answers so; that the keys are the cause would be lost.
TEST(HttpPurpose, ExpiredKeysAreDeliveredAsForbidden) {
  HttpServer server(
      [](const SeenRequest& request, Wire& wire) { wire.send(answer("400 Bad Request", request.target.substr(1))); });
  for (const auto& [code, seen] :
       {std::pair("ExpiredToken", "403 ExpiredToken"), std::pair("InvalidToken", "403 InvalidToken"),
        std::pair("InvalidArgument", "400 InvalidArgument")}) {
    Request request = get(server.url(std::string("/") + code));
    request.credentials = std::make_shared<PreparedCredentials>();
    EXPECT_EQ(send(request), seen);
  }
}

}  // namespace
}  // namespace weightfs::http_purpose_test
