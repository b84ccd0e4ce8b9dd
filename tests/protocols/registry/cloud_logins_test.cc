#include "protocols/registry/cloud_logins.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/values/base64.h"
#include "protocols/registry/credentials.h"
#include "tests/support/scripted_client.h"

namespace weightfs::test::cloud_logins_test {
namespace {

using namespace registry;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

constexpr const char* kHost = "123456789012.dkr.ecr.eu-west-1.amazonaws.com";
constexpr const char* kOrigin = "https://123456789012.dkr.ecr.eu-west-1.amazonaws.com:443";
constexpr const char* kArtifacts = "https://europe-docker.pkg.dev:443";
constexpr const char* kAzure = "https://team.azurecr.io:443";

std::shared_ptr<s3::UserKeys> keys_of(const s3::Settings& settings) {
  return std::make_shared<s3::UserKeys>(settings, [settings] { return Result<s3::Settings>(settings); });
}

s3::Settings with_keys(s3::Keys keys) {
  s3::Settings settings;
  settings.keys = std::move(keys);
  settings.keys_from = "$KEYS";
  return settings;
}

std::string answer_of_amazon(const std::string& login, const std::string& expiry) {
  return fmt::format(R"({{"authorizationData":[{{"authorizationToken":"{}","expiresAt":{}}}]}})", base64(login),
                     expiry);
}

class CloudLoginsTest : public testing::Test {
 protected:
  Result<FoundLogin> find(const std::string& origin, const std::string& token_server) {
    const CloudLogins logins(origins, {keys_of(amazon), keys_of(google), keys_of(azure)});
    return logins.find(origin, token_server, client, {});
  }
  Result<FoundLogin> find(const std::string& origin) { return find(origin, origin); }
  std::vector<http::Request> requests() const { return client->requests(); }

  s3::Settings amazon = with_keys({"AKIDEXAMPLE", "secret of the user", "token of the session"});
  s3::Settings google = with_keys({"", "", "token-of-google"});
  s3::Settings azure = with_keys({"", "", "token-of-azure"});
  std::vector<std::string> origins = {kOrigin, "https://public.ecr.aws:443", "https://gcr.io:443", kArtifacts, kAzure};
  Result<download::Response> response = page(200, answer_of_amazon("AWS:password", "2e9"));
  std::shared_ptr<ScriptedClient> client =
      std::make_shared<ScriptedClient>([this](const http::Request&) { return response; });
};

TEST(CloudOf, WholeNamesOfHostsCount) {
  const auto of = [](const std::string& host) { return cloud_of("https://" + host + ":443"); };
  for (const char* const host :
       {kHost, "123456789012.dkr.ecr-fips.us-gov-west-1.amazonaws.com",
        "123456789012.dkr.ecr.cn-north-1.amazonaws.com.cn", "public.ecr.aws", "123456789012.dkr-ecr.us-east-1.on.aws",
        "123456789012.dkr-ecr-fips.us-gov-east-1.on.aws", "123456789012.dkr-ecr.cn-north-1.on.amazonwebservices.com.cn",
        "ecr-public.aws.com"})
    EXPECT_EQ(of(host), Cloud::amazon) << host;
  for (const char* const host : {"gcr.io", "eu.gcr.io", "us-central1-docker.pkg.dev"})
    EXPECT_EQ(of(host), Cloud::google) << host;
  for (const char* const host : {"team.azurecr.io", "team.azurecr.us", "team.azurecr.cn"})
    EXPECT_EQ(of(host), Cloud::azure) << host;
  for (const char* const host : {"123456789012.dkr.ecr.us-east-1.amazonaws.com.evil.org",
                                 "x.dkr.ecr.us-east-1.amazonaws.com.evil.org",
                                 "x.dkr.ecr.us-east-1.amazonaws.com",
                                 "12345678901.dkr.ecr.us-east-1.amazonaws.com",
                                 "1234567890123.dkr.ecr.us-east-1.amazonaws.com",
                                 "evil.123456789012.dkr.ecr.us-east-1.amazonaws.com",
                                 "123456789012.dkr.ecr.a.b.amazonaws.com",
                                 "123456789012.dkr.ecr..amazonaws.com",
                                 "123456789012.dkr.ecr.us-east-1.amazonaws.com.cn",
                                 "123456789012.dkr.ecr.cn-north-1.amazonaws.com",
                                 "123456789012.dkr.ecr.us-east-1.amazonaws.org",
                                 "123456789012.dkr-ecr.us-east-1.amazonaws.com",
                                 "123456789012.dkr.ecr.us-east-1.on.aws",
                                 "123456789012.dkr-ecr.cn-north-1.on.aws",
                                 "123456789012.dkr-ecr.us-east-1.on.amazonwebservices.com.cn",
                                 "123456789012.dkr-ecr.a.b.on.aws",
                                 "123456789012.dkr-ecr..on.aws",
                                 "x.dkr-ecr.us-east-1.on.aws",
                                 "123456789012.dkr-ecr.us-east-1.on.aws.evil.org",
                                 "a.ecr-public.aws.com",
                                 "ecr-public.aws.com.evil.org",
                                 "a.public.ecr.aws",
                                 "public.ecr.aws.evil.org",
                                 "notgcr.io",
                                 "a.b.gcr.io",
                                 ".gcr.io",
                                 "gcr.io.evil.org",
                                 "-docker.pkg.dev",
                                 "evil.pkg.dev",
                                 "a.us-docker.pkg.dev",
                                 "us-docker.pkg.dev.evil.org",
                                 "azurecr.io",
                                 "team.azurecr.de",
                                 "team.azurecr.us.evil.org",
                                 "a.b.azurecr.cn",
                                 "a.b.azurecr.io",
                                 "team.azurecr.io.evil.org",
                                 "a@team.azurecr.io",
                                 "a/team.azurecr.io",
                                 "TEAM.azurecr.io",
                                 ""})
    EXPECT_EQ(of(host), Cloud::none) << host;
  EXPECT_EQ(cloud_of("http://gcr.io:443"), Cloud::none);
  EXPECT_EQ(cloud_of("https://gcr.io:8443"), Cloud::none);
}

TEST_F(CloudLoginsTest, AmazonGivesALoginForItsKeys) {
  const auto found = find(kOrigin);
  ASSERT_TRUE(found && found->login) << found->reason;
  EXPECT_EQ(basic_authorization(*found->login), "Basic " + base64("AWS:password"));
  EXPECT_EQ(found->file, "$KEYS");
  EXPECT_EQ(found->expiry, 2'000'000'000);
  ASSERT_EQ(requests().size(), 1u);
  const http::Request request = requests().front();
  EXPECT_EQ(request.url, "https://api.ecr.eu-west-1.amazonaws.com/");
  EXPECT_EQ(request.method, http::Request::Method::post);
  EXPECT_EQ(request.purpose, http::Purpose::keys) << "no redirect is followed";
  EXPECT_EQ(request.body, "{}");
  EXPECT_THAT(request.headers, ElementsAre("Content-Type: application/x-amz-json-1.1",
                                           "X-Amz-Target: AmazonEC2ContainerRegistry_V20150921.GetAuthorizationToken"));
  const auto headers = all_headers(request);
  EXPECT_THAT(headers, Contains("x-amz-security-token: token of the session"));
  EXPECT_THAT(headers, Contains("x-amz-content-sha256: "
                                "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"));
  EXPECT_THAT(headers.back(), StartsWith("Authorization: AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/"));
  EXPECT_THAT(headers.back(), HasSubstr("/eu-west-1/ecr/aws4_request, "
                                        "SignedHeaders=content-type;host;x-amz-content-sha256;x-amz-date;"
                                        "x-amz-security-token;x-amz-target, "));
  for (const std::string& line : headers) EXPECT_THAT(line, Not(HasSubstr("secret of the user")));
}

TEST_F(CloudLoginsTest, PublicRegistryOfAmazonHasItsOwnApi) {
  response = page(200, R"({"authorizationData":{"authorizationToken":")" + base64("AWS:p") + R"("}})");
  const auto found = find("https://public.ecr.aws:443");
  ASSERT_TRUE(found && found->login) << found->reason;
  EXPECT_EQ(found->expiry, std::nullopt);
  const http::Request request = requests().at(0);
  EXPECT_EQ(request.url, "https://api.ecr-public.us-east-1.amazonaws.com/");
  EXPECT_THAT(request.headers, Contains("X-Amz-Target: SpencerFrontendService.GetAuthorizationToken"));
  EXPECT_THAT(all_headers(request).back(), HasSubstr("/us-east-1/ecr-public/aws4_request, "));
}

TEST_F(CloudLoginsTest, OtherApisOfAmazonAreInTheSameCloud) {
  origins = {"https://123456789012.dkr.ecr.cn-north-1.amazonaws.com.cn:443",
             "https://123456789012.dkr.ecr-fips.us-east-1.amazonaws.com:443",
             "https://123456789012.dkr-ecr.us-east-1.on.aws:443",
             "https://123456789012.dkr-ecr-fips.us-east-1.on.aws:443",
             "https://123456789012.dkr-ecr.cn-north-1.on.amazonwebservices.com.cn:443",
             "https://ecr-public.aws.com:443"};
  for (const std::string& origin : std::vector(origins)) EXPECT_TRUE(find(origin)) << origin;
  std::vector<std::string> urls;
  for (const http::Request& request : requests()) urls.push_back(request.url);
  EXPECT_THAT(
      urls,
      ElementsAre("https://api.ecr.cn-north-1.amazonaws.com.cn/", "https://ecr-fips.us-east-1.amazonaws.com/",
                  "https://ecr.us-east-1.api.aws/", "https://ecr-fips.us-east-1.api.aws/",
                  "https://ecr.cn-north-1.api.amazonwebservices.com.cn/", "https://ecr-public.us-east-1.api.aws/"));
}

TEST_F(CloudLoginsTest, VariableWithAnUnsafeApiIsRefused) {
  ::setenv("AWS_ENDPOINT_URL_ECR", "http://api.example", 1);
  const auto found = find(kOrigin);
  ::unsetenv("AWS_ENDPOINT_URL_ECR");
  ASSERT_TRUE(found);
  EXPECT_FALSE(found->login);
  EXPECT_THAT(found->reason, StartsWith("AWS_ENDPOINT_URL_ECR=http://api.example/: refused"));
  EXPECT_THAT(requests(), IsEmpty());
}

TEST_F(CloudLoginsTest, AnswersWithoutALoginAreReasons) {
  for (const auto& [status, body, reason] : std::vector<std::tuple<int, std::string, std::string>>{
           {400, R"({"__type":"x#AccessDeniedException","Message":"no"})", "status 400, AccessDeniedException: no"},
           {403, "<html>", "403"},
           {200, "[]", "not a JSON object"},
           {200, "{}", "the answer has no login"},
           {200, R"({"authorizationData":[]})", "the answer has no login"},
           {200, R"({"authorizationData":[7]})", "the answer has no login"},
           {200, R"({"authorizationData":[{"authorizationToken":"!"}]})", "the answer has no login"},
           {200, answer_of_amazon("AWS", "1"), "the answer has no login"},
           {200, answer_of_amazon("AWS:", "1"), "the answer has no login"},
           {200, answer_of_amazon("AWS:p", "-1"), "expiresAt is not a valid time"},
           {200, answer_of_amazon("AWS:p", "1e300"), "expiresAt is not a valid time"},
           {200, answer_of_amazon("AWS:p", "\"soon\""), "expiresAt is not a valid time"}}) {
    response = page(status, body);
    const auto found = find(kOrigin);
    ASSERT_TRUE(found) << body;
    EXPECT_FALSE(found->login) << body;
    EXPECT_THAT(found->reason, HasSubstr(reason)) << body;
  }
}

TEST_F(CloudLoginsTest, FailureOfTheNetworkIsNoReasonToBeAnonymous) {
  response = failure(Code::network, "no route");
  const auto found = find(kOrigin);
  ASSERT_FALSE(found);
  EXPECT_TRUE(is_about_the_network(found.error()) && is_given_up(found.error()));
}

TEST_F(CloudLoginsTest, GoogleTakesTheTokenAsPassword) {
  for (const char* const origin : {"https://gcr.io:443", kArtifacts}) {
    const auto found = find(origin);
    ASSERT_TRUE(found && found->login);
    EXPECT_EQ(basic_authorization(*found->login), "Basic " + base64("oauth2accesstoken:token-of-google"));
  }
  EXPECT_TRUE(find("https://gcr.io:443", kArtifacts)->login) << "a token server of the same cloud";
  EXPECT_THAT(requests(), IsEmpty());
}

TEST_F(CloudLoginsTest, AzureExchangesItsTokenAtTheRegistry) {
  response = page(200, R"({"refresh_token":"refresh"})");
  const auto found = find(kAzure);
  ASSERT_TRUE(found && found->login) << found->reason;
  EXPECT_EQ(found->login->identity_token, "refresh");
  const http::Request request = requests().at(0);
  EXPECT_EQ(request.url, "https://team.azurecr.io/oauth2/exchange");
  EXPECT_EQ(request.purpose, http::Purpose::keys);
  EXPECT_EQ(request.body, "access_token=token-of-azure&grant_type=access_token&service=team.azurecr.io");
  for (const char* const body : {"{}", R"({"refresh_token":"a b"})", "x"}) {
    response = page(200, body);
    EXPECT_FALSE(find(kAzure)->login) << body;
  }
}

TEST_F(CloudLoginsTest, OthersGetNothing) {
  EXPECT_FALSE(find(kOrigin, "https://elsewhere.example:443")->login);
  EXPECT_FALSE(find(kAzure, "https://other.azurecr.io:443")->login);
  EXPECT_FALSE(find(kArtifacts, "https://gcr.io.evil.org:443")->login);
  origins = {"https://evil.org:443", "https://123456789012.dkr.ecr.us-east-1.amazonaws.com.evil.org:443"};
  for (const std::string& origin : {origins[0], origins[1], std::string(kOrigin), std::string(kAzure)}) {
    const auto found = find(origin);
    ASSERT_TRUE(found);
    EXPECT_FALSE(found->login) << origin;
    EXPECT_EQ(found->reason, "") << origin;
  }
  EXPECT_THAT(requests(), IsEmpty());
}

TEST_F(CloudLoginsTest, WithoutKeysTheReasonIsNamed) {
  amazon = {};
  google.keys.reset();
  google.note = "the file is damaged";
  EXPECT_EQ(find(kOrigin)->reason, "there are no keys of AWS for it");
  EXPECT_EQ(find(kArtifacts)->reason, "the file is damaged");
  EXPECT_THAT(requests(), IsEmpty());
}

TEST_F(CloudLoginsTest, CredentialsRenewALoginBeforeItExpires) {
  int64_t now = 1'700'000'000;
  const auto logins =
      std::make_shared<const CloudLogins>(origins, CloudKeys{keys_of(amazon), keys_of(google), keys_of(azure)});
  Credentials credentials(client, std::string("https://") + kHost + "/v2/team/tiny", {}, {},
                          ClockAndNonce{[&] { return now; }, [] { return "nonce"; }}, logins);
  const http::Response challenge{
      401, {{"www-authenticate", "Basic realm=\"x\""}}, std::string("https://") + kHost, false};
  response = page(200, answer_of_amazon("AWS:first", std::to_string(now + 12 * 3600)));
  EXPECT_TRUE(credentials.on_unauthorized(challenge, {}, {}).value_or(false));
  EXPECT_EQ(credentials.authorization(), "Basic " + base64("AWS:first"));
  EXPECT_EQ(credentials.key_origin().from, "$KEYS");
  EXPECT_EQ(credentials.description(), "tried as \"AWS\" of $KEYS");
  now += 12 * 3600 - 16 * 60;
  EXPECT_NE(credentials.authorization(), "");
  now += 2 * 60;
  EXPECT_EQ(credentials.authorization(), "");
  response = page(200, answer_of_amazon("AWS:second", std::to_string(now + 12 * 3600)));
  EXPECT_TRUE(credentials.on_unauthorized(challenge, {}, {}).value_or(false));
  EXPECT_EQ(credentials.authorization(), "Basic " + base64("AWS:second"));
  EXPECT_EQ(requests().size(), 2u);
}

TEST_F(CloudLoginsTest, CredentialsWithoutALoginNameBothReasons) {
  amazon = {};
  const auto logins =
      std::make_shared<const CloudLogins>(origins, CloudKeys{keys_of(amazon), keys_of(google), keys_of(azure)});
  Credentials credentials(client, std::string("https://") + kHost, {}, {}, ClockAndNonce::of_system(), logins);
  const http::Response challenge{
      401, {{"www-authenticate", "Basic realm=\"x\""}}, std::string("https://") + kHost, false};
  EXPECT_FALSE(credentials.on_unauthorized(challenge, {}, {}).value_or(true));
  EXPECT_EQ(credentials.description(),
            "tried anonymously: there is no docker config, and there are no keys of AWS for it");
}

}  // namespace
}  // namespace weightfs::test::cloud_logins_test
