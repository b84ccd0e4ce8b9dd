// The requests for tokens, and what their answers mean.
#include "protocols/azure/tokens.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "tests/support/scripted_client.h"
#include "tests/support/temporary.h"

namespace weightfs::azure::tokens_test {
namespace {

using std::chrono::milliseconds;
using test::page;
using test::ScriptedClient;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;
using testing::StartsWith;

std::string text(const s3::KeySourcePtr& source, ScriptedClient& client) {
  const auto found = source->obtain(client, {});
  if (!found) return (found.error().code == Code::network ? "network: " : "forbidden: ") + found.error().message;
  return found->keys ? found->keys->token : "none";
}

TEST(AzureTokens, FederatedTokenIsReadForEachRequestAndSentInTheBody) {
  const TemporaryDirectory temporary;
  const std::string file = temporary.write("token", "first.token\n");
  ScriptedClient client([](const auto&) { return page(200, R"({"access_token": "abc", "expires_in": 3599})"); });
  const auto source = application({"https://login.example", "ten ant", "client", "", file});
  const auto before = std::chrono::system_clock::now();
  const auto found = source->obtain(client, {});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->keys->token, "abc");
  EXPECT_GE(*found->expiry, before + std::chrono::seconds(3599));
  temporary.write("token", "second.token");
  EXPECT_EQ(text(source, client), "abc");
  const auto requests = client.requests();
  ASSERT_THAT(requests, SizeIs(2));
  EXPECT_EQ(requests[0].url, "https://login.example/ten%20ant/oauth2/v2.0/token");
  EXPECT_EQ(requests[0].purpose, http::Purpose::keys);
  EXPECT_EQ(requests[0].body,
            "grant_type=client_credentials&client_id=client&scope=https%3A%2F%2Fstorage.azure.com%2F.default"
            "&client_assertion_type=urn%3Aietf%3Aparams%3Aoauth%3Aclient-assertion-type%3Ajwt-bearer"
            "&client_assertion=first.token");
  EXPECT_THAT(requests[1].body, HasSubstr("client_assertion=second.token"));
}

TEST(AzureTokens, SecretOfAnApplicationIsNotInAFailure) {
  ScriptedClient client(
      [](const auto&) { return page(401, R"({"error": "invalid_client", "error_description": "AADSTS7000215"})"); });
  const std::string failure = text(application({"https://login.example", "t", "c", "se/cret"}), client);
  EXPECT_THAT(failure, StartsWith("forbidden: client secret: https://login.example/t/oauth2/v2.0/token: status 401"));
  EXPECT_THAT(failure, Not(HasSubstr("se/cret")));
  EXPECT_THAT(client.requests().front().body, HasSubstr("&client_secret=se%2Fcret"));
}

TEST(AzureTokens, MachineIsAskedWithItsHeader) {
  ScriptedClient client(
      [](const auto&) { return page(200, R"({"access_token": "abc", "expires_on": "1791462896"})"); });
  const auto source = managed_identity({"http://169.254.169.254/metadata/identity/oauth2/token", "id"});
  const auto found = source->obtain(client, {});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->expiry->time_since_epoch() / std::chrono::seconds(1), 1791462896);
  const http::Request request = client.requests().front();
  EXPECT_EQ(request.url,
            "http://169.254.169.254/metadata/identity/oauth2/token?api-version=2018-02-01"
            "&resource=https%3A%2F%2Fstorage.azure.com&client_id=id");
  EXPECT_THAT(request.headers, Contains("Metadata: true"));
  EXPECT_EQ(request.purpose, http::Purpose::metadata);
}

TEST(AzureTokens, AppServiceGetsItsHeaderAsASecret) {
  ScriptedClient client([](const auto&) { return page(200, R"({"access_token": "abc", "expires_on": 1791462896})"); });
  EXPECT_EQ(text(managed_identity({"http://127.0.0.1:1/msi/token", "", "header"}), client), "abc");
  const http::Request request = client.requests().front();
  EXPECT_THAT(request.url, HasSubstr("api-version=2019-08-01"));
  EXPECT_THAT(request.headers, Not(Contains(HasSubstr("header"))));
  EXPECT_THAT(test::all_headers(request), Contains("X-IDENTITY-HEADER: header"));
}

TEST(AzureTokens, MachineThatStartsIsAskedAgain) {
  int requests = 0;
  ScriptedClient client([&](const auto&) {
    constexpr int kStarting = 2;
    return ++requests <= kStarting ? page(requests == 1 ? 404 : 410, "")
                                   : page(200, R"({"access_token": "abc", "expires_in": "60"})");
  });
  EXPECT_EQ(text(managed_identity({"http://127.0.0.1:1/t", "", "", true, milliseconds(1)}), client), "abc");
  EXPECT_EQ(requests, 3);
}

TEST(AzureTokens, MachineWithoutAnIdentityIsAnonymousUnlessItWasNamed) {
  ScriptedClient client([](const auto&) { return page(400, R"({"error": "invalid_request"})"); });
  EXPECT_EQ(text(managed_identity({"http://127.0.0.1:1/t", "", "", false}), client), "none");
  EXPECT_THAT(text(managed_identity({"http://127.0.0.1:1/t", "", "", true}), client),
              StartsWith("forbidden: managed identity: "));
}

TEST(AzureTokens, MachineWithoutTheServiceIsAskedOnce) {
  ScriptedClient client([](const auto&) -> Result<download::Response> { return failure(Code::network, "no route"); });
  EXPECT_THAT(text(managed_identity({"http://127.0.0.1:1/t"}), client), StartsWith("network: managed identity: "));
  EXPECT_THAT(client.requests(), SizeIs(1));
}

TEST(AzureTokens, InvalidAnswersAreRefused) {
  for (const char* body : {"", "[]", R"({"expires_in": 1})", R"({"access_token": "a b", "expires_in": 1})",
                           R"({"access_token": "a", "expires_in": -1})", R"({"access_token": "a"})",
                           R"({"access_token": "a\r\nX: y", "expires_in": 1})"}) {
    ScriptedClient client([&](const auto&) { return page(200, body); });
    EXPECT_THAT(text(application({"https://login.example", "t", "c", "s"}), client),
                StartsWith("forbidden: client secret: "))
        << body;
  }
}

}  // namespace
}  // namespace weightfs::azure::tokens_test
