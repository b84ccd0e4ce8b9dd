// The requests of each source of keys, and what their answers mean.
#include "protocols/aws/key_sources.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>

#include "protocols/aws/key_requests.h"
#include "tests/support/scripted_client.h"
#include "tests/support/temporary.h"

namespace weightfs::aws::key_sources_test {
namespace {

using test::all_headers;
using test::page;
using test::ScriptedClient;
using testing::AllOf;
using testing::Contains;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;
using testing::StartsWith;

using Method = http::Request::Method;
using Purpose = http::Purpose;

const s3::Keys kSourceKeys{"AKIDSOURCE", "source-secret", "source-token"};

std::string text(const s3::KeySourcePtr& source, ScriptedClient& client) {
  const auto found = source->obtain(client, {});
  if (!found) return (found.error().code == Code::network ? "network: " : "forbidden: ") + found.error().message;
  if (!found->keys) return "none";
  const std::string until =
      found->expiry ? std::to_string(found->expiry->time_since_epoch() / std::chrono::seconds(1)) : "ever";
  return found->keys->id + " " + found->keys->secret + " " + found->keys->token + " " + until;
}

// 1791462896 is 2026-10-08T12:34:56Z.
std::string service_answer(const std::string& action) {
  return "<?xml version=\"1.0\"?>\n<" + action + "Response xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\"><" +
         action +
         "Result><AssumedRoleUser><Arn>arn:x</Arn></AssumedRoleUser><Credentials><AccessKeyId>id</AccessKeyId>"
         "<SecretAccessKey>se&amp;cret</SecretAccessKey><SessionToken>to+/=ken</SessionToken>"
         "<Expiration>2026-10-08T12:34:56Z</Expiration></Credentials></" +
         action + "Result></" + action + "Response>";
}

std::string service_error(const std::string& code) {
  return "<ErrorResponse><Error><Type>Sender</Type><Code>" + code +
         "</Code><Message>why</Message></Error></ErrorResponse>";
}

constexpr const char* kJson =
    R"({"AccessKeyId": "id", "SecretAccessKey": "secret", "Token": "token", "Expiration": "2026-10-08T12:34:56Z"})";

class KeySourcesTest : public testing::Test {
 protected:
  s3::KeySourcePtr identity() const {
    return web_identity({.service = {"https://sts.eu-west-1.amazonaws.com", "eu-west-1"},
                         .token_file = temporary_.path("token"),
                         .role = "arn:aws:iam::1:role/r",
                         .session_name = "weightfs"});
  }

  TemporaryDirectory temporary_;
};

TEST_F(KeySourcesTest, CredentialsFileIsReadEachTime) {
  ScriptedClient client([](const auto&) { return page(500, ""); });
  const auto source = credentials_file(temporary_.path("keys"));
  EXPECT_THAT(text(source, client),
              AllOf(StartsWith("forbidden: --credentials-file "), HasSubstr(temporary_.path("keys"))));
  temporary_.write("keys", R"({"Version": 1, "AccessKeyId": "a", "SecretAccessKey": "b"})");
  EXPECT_EQ(text(source, client), "a b  ever");
  temporary_.write("keys", R"({"Version": 1, "AccessKeyId": "c", "SecretAccessKey": "d", "SessionToken": "e",
                               "Expiration": "2026-10-08T14:34:56.789+02:00"})");
  EXPECT_EQ(text(source, client), "c d e 1791462896");
  EXPECT_THAT(client.requests(), IsEmpty());
  EXPECT_EQ(source->origin(), temporary_.path("keys"));
}

TEST_F(KeySourcesTest, InvalidCredentialsFilesAreRefusedWithoutTheirContent) {
  ScriptedClient client([](const auto&) { return page(500, ""); });
  const auto source = credentials_file(temporary_.path("keys"));
  for (const char* const content :
       {"", "[]", "{", "{}", R"({"Version": 2, "AccessKeyId": "a", "SecretAccessKey": "hidden"})",
        R"({"Version": 1, "AccessKeyId": "a"})", R"({"Version": 1, "SecretAccessKey": "hidden"})",
        R"({"Version": 1, "AccessKeyId": "a", "SecretAccessKey": "hid den"})",
        R"({"Version": 1, "AccessKeyId": "a", "SecretAccessKey": "hidden", "Expiration": "soon"})"}) {
    temporary_.write("keys", content);
    EXPECT_THAT(text(source, client), AllOf(StartsWith("forbidden: "), Not(HasSubstr("hid")))) << content;
  }
  temporary_.write("keys", std::string(64 * 1024 + 1, ' '));
  EXPECT_THAT(text(source, client), HasSubstr("larger than 64.0 KiB"));
}

TEST_F(KeySourcesTest, WebIdentitySendsItsTokenInTheBody) {
  temporary_.write("token", "a.b-c\n");
  ScriptedClient client([](const auto&) { return page(200, service_answer("AssumeRoleWithWebIdentity")); });
  EXPECT_EQ(text(identity(), client), "id se&cret to+/=ken 1791462896");
  ASSERT_THAT(client.requests(), SizeIs(1));
  const http::Request request = client.requests().front();
  EXPECT_EQ(request.url, "https://sts.eu-west-1.amazonaws.com/");
  EXPECT_TRUE(request.method == Method::post && request.purpose == Purpose::keys);
  EXPECT_EQ(request.body,
            "Action=AssumeRoleWithWebIdentity&Version=2011-06-15&RoleArn=arn%3Aaws%3Aiam%3A%3A1%3Arole%2Fr&"
            "RoleSessionName=weightfs&WebIdentityToken=a.b-c");
  EXPECT_THAT(all_headers(request), Not(Contains(HasSubstr("uthorization"))));
}

TEST_F(KeySourcesTest, ExpiredWebIdentityTokenIsReadAgainOnce) {
  temporary_.write("token", "old");
  ScriptedClient client([&](const http::Request& request) {
    temporary_.write("token", "new");
    return request.body.ends_with("old") ? page(400, service_error("ExpiredTokenException"))
                                         : page(200, service_answer("AssumeRoleWithWebIdentity"));
  });
  EXPECT_THAT(text(identity(), client), StartsWith("id "));
  EXPECT_THAT(client.requests(), SizeIs(2));
  ScriptedClient refusing([](const auto&) { return page(400, service_error("ExpiredTokenException")); });
  EXPECT_EQ(
      text(identity(), refusing),
      "forbidden: STS web identity: https://sts.eu-west-1.amazonaws.com/: status 400, ExpiredTokenException: why");
  EXPECT_THAT(refusing.requests(), SizeIs(2));
}

TEST_F(KeySourcesTest, WebIdentityFailsAsItsServiceDoes) {
  temporary_.write("token", "token-of-the-pod");
  std::string code = "AccessDenied";
  ScriptedClient client([&](const auto&) { return page(403, service_error(code)); });
  EXPECT_THAT(text(identity(), client), AllOf(StartsWith("forbidden: STS web identity: "),
                                              HasSubstr("AccessDenied: why"), Not(HasSubstr("token-of-the-pod"))));
  code = "InvalidIdentityToken: eyJhbGciOiJSUzI1NiJ9.e30";
  EXPECT_THAT(text(identity(), client), HasSubstr("InvalidIdentityToken: ...: why"));
  code = "IDPCommunicationError";
  EXPECT_THAT(text(identity(), client), StartsWith("network: "));
  ScriptedClient busy([](const auto&) { return page(503, ""); });
  EXPECT_THAT(text(identity(), busy), StartsWith("network: "));
  EXPECT_THAT(busy.requests(), SizeIs(2));
  ScriptedClient empty([](const auto&) { return page(200, "<html>"); });
  EXPECT_THAT(text(identity(), empty), HasSubstr("incomplete AWS credentials"));
  for (const std::string& token : {std::string("two words"), std::string(), std::string(20'001, 'x')}) {
    temporary_.write("token", token);
    EXPECT_THAT(text(identity(), client), EndsWith("not a token")) << token.size();
  }
  std::filesystem::remove(temporary_.path("token"));
  EXPECT_THAT(text(identity(), client), StartsWith("forbidden: STS web identity: "));
}

TEST_F(KeySourcesTest, AssumedRoleIsSignedWithTheSourceKeys) {
  ScriptedClient client([](const auto&) { return page(200, service_answer("AssumeRole")); });
  AssumedRole role{.service = {"https://sts.eu-west-1.amazonaws.com", "eu-west-1"},
                   .role = "arn:aws:iam::1:role/r",
                   .session_name = "me",
                   .external_id = "a b",
                   .duration = "900",
                   .keys = kSourceKeys};
  EXPECT_EQ(text(assumed_role(role), client), "id se&cret to+/=ken 1791462896");
  const http::Request request = client.requests().front();
  EXPECT_EQ(request.url,
            "https://sts.eu-west-1.amazonaws.com/?Action=AssumeRole&DurationSeconds=900&ExternalId=a%20b&"
            "RoleArn=arn%3Aaws%3Aiam%3A%3A1%3Arole%2Fr&RoleSessionName=me&Version=2011-06-15");
  EXPECT_THAT(request.headers, IsEmpty()) << "headers with secrets belong to the credentials";
  EXPECT_THAT(all_headers(request),
              AllOf(Contains(AllOf(StartsWith("Authorization: AWS4-HMAC-SHA256 Credential=AKIDSOURCE/"),
                                   HasSubstr("/eu-west-1/sts/aws4_request, SignedHeaders=host;x-amz-date;"
                                             "x-amz-security-token, "))),
                    Contains("x-amz-security-token: source-token")));
  EXPECT_TRUE(request.method == Method::get && request.purpose == Purpose::keys);
  ScriptedClient refusing([](const auto&) { return page(403, service_error("AccessDenied")); });
  EXPECT_EQ(
      text(assumed_role(role), refusing),
      "forbidden: the role arn:aws:iam::1:role/r: https://sts.eu-west-1.amazonaws.com/: status 403, AccessDenied: "
      "why");
}

TEST_F(KeySourcesTest, AssumedRoleObtainsTheKeysThatSign) {
  ScriptedClient client([](const http::Request& request) {
    return request.url.starts_with("https://sts") ? page(200, service_answer("AssumeRole")) : page(200, kJson);
  });
  AssumedRole role{.service = {"https://sts.r.amazonaws.com", "r"}, .role = "arn", .session_name = "me"};
  role.source = container({.url = "http://169.254.170.2/x"});
  EXPECT_THAT(text(assumed_role(role), client), StartsWith("id "));
  ASSERT_THAT(client.requests(), SizeIs(2));
  EXPECT_THAT(all_headers(client.requests().back()), Contains(HasSubstr("Credential=id/")));
}

TEST_F(KeySourcesTest, ContainerSendsTheTokenOfTheFileAsItIs) {
  temporary_.write("token", "Any thing\r\n");
  ScriptedClient client([](const auto&) { return page(200, kJson); });
  const auto source = container(
      {.url = "http://169.254.170.23/v1/credentials", .token_file = temporary_.path("token"), .token = "unused"});
  EXPECT_EQ(text(source, client), "id secret token 1791462896");
  temporary_.write("token", "next");
  EXPECT_THAT(text(source, client), StartsWith("id "));
  const auto requests = client.requests();
  ASSERT_THAT(requests, SizeIs(2));
  EXPECT_THAT(all_headers(requests[0]),
              AllOf(Contains("Authorization: Any thing"), Contains("Accept: application/json")));
  EXPECT_THAT(all_headers(requests[1]), Contains("Authorization: next"));
  EXPECT_TRUE(requests[0].purpose == Purpose::metadata);
  temporary_.write("token", "a\nX-Evil: 1");
  EXPECT_THAT(text(source, client), HasSubstr("line break"));
  EXPECT_THAT(client.requests(), SizeIs(2));
}

TEST_F(KeySourcesTest, ContainerIsAskedAgainAsOftenAsRetriesSay) {
  int count = 0;
  ScriptedClient client([&](const auto&) { return ++count < 3 ? page(500, "") : page(200, kJson); }, 2);
  EXPECT_THAT(text(container({.url = "http://169.254.170.2/x"}), client), StartsWith("id "));
  EXPECT_EQ(count, 3);
  ScriptedClient busy([](const auto&) { return page(500, ""); }, 0);
  EXPECT_THAT(text(container({.url = "http://169.254.170.2/x"}), busy), StartsWith("network: container metadata: "));
  EXPECT_THAT(busy.requests(), SizeIs(1));
  ScriptedClient refusing([](const auto&) { return page(400, R"({"code": "x", "message": "no role"})"); });
  EXPECT_EQ(text(container({.url = "http://169.254.170.2/x", .token = "hidden"}), refusing),
            "forbidden: container metadata: http://169.254.170.2/x: status 400, no role");
}

download::Response instance_answer(const http::Request& request) {
  if (request.method == Method::put) return page(200, "session-token\n");
  if (!all_headers(request).back().ends_with("session-token")) return page(401, "");
  if (request.url.ends_with("security-credentials/")) return page(200, "a role\nother");
  if (request.url.ends_with("security-credentials/a%20role"))
    return page(200, std::string(R"({"Code": "Success", )") + (kJson + 1));
  return page(404, "");
}

TEST_F(KeySourcesTest, InstanceIsAskedByVersionTwoOnly) {
  ScriptedClient client(instance_answer);
  EXPECT_EQ(text(instance({}), client), "id secret token 1791462896");
  const auto requests = client.requests();
  ASSERT_THAT(requests, SizeIs(3));
  EXPECT_EQ(requests[0].url, "http://169.254.169.254/latest/api/token");
  EXPECT_TRUE(requests[0].method == Method::put && requests[0].purpose == Purpose::metadata);
  EXPECT_THAT(requests[0].headers, Contains("X-aws-ec2-metadata-token-ttl-seconds: 21600"));
  for (const int status : {400, 403, 404, 405}) {
    ScriptedClient old([&](const auto&) { return page(status, ""); });
    EXPECT_THAT(text(instance({}), old), StartsWith("forbidden: instance metadata: ")) << status;
    EXPECT_THAT(old.requests(), SizeIs(1));
  }
}

TEST_F(KeySourcesTest, InstanceWithoutARoleHasNoKeys) {
  ScriptedClient client([](const http::Request& request) {
    return request.method == Method::put ? page(200, "session-token") : page(404, "");
  });
  EXPECT_EQ(text(instance({}), client), "none");
}

TEST_F(KeySourcesTest, TimeoutOfTheInstanceNamesTheHopLimit) {
  ScriptedClient client([](const auto&) -> Result<download::Response> { return failure(timeout("url: timed out")); });
  EXPECT_THAT(text(instance({}), client),
              AllOf(StartsWith("network: instance metadata: url: timed out"), HasSubstr("hop limit")));
  EXPECT_THAT(client.requests(), SizeIs(1)) << "--retries is not for the metadata of a machine that may have none";
  EXPECT_TRUE(instance({})->is_optional());
  EXPECT_FALSE(instance({.is_named = true})->is_optional());
}

TEST_F(KeySourcesTest, InstanceMayReportAFailureWithStatus200) {
  ScriptedClient client([](const http::Request& request) {
    const download::Response answer = instance_answer(request);
    return request.url.ends_with("a%20role") ? page(200, R"({"Code": "AssumeRoleUnauthorizedAccess", "Message": "m"})")
                                             : answer;
  });
  EXPECT_EQ(text(instance({}), client), "forbidden: instance metadata: AssumeRoleUnauthorizedAccess: m");
}

TEST_F(KeySourcesTest, SingleSignOnReadsTheTokenEachTime) {
  ScriptedClient client([](const auto&) {
    return page(200, R"({"roleCredentials": {"accessKeyId": "id", "secretAccessKey": "secret", "sessionToken": "token",
                         "expiration": 1791462896000}})");
  });
  const auto source = single_sign_on({.url = "https://portal.sso.r.amazonaws.com",
                                      .token_file = temporary_.path("sso.json"),
                                      .account = "123456789012",
                                      .role = "Read Only",
                                      .profile = "my work"});
  const auto login = [](const char* expiry) {
    return std::string(R"({"accessToken": "login-token", "startUrl": "x", "expiresAt": ")") + expiry + "\"}";
  };
  temporary_.write("sso.json", login("2199-01-01T00:00:00UTC"));
  EXPECT_EQ(text(source, client), "id secret token 1791462896");
  const http::Request request = client.requests().front();
  EXPECT_EQ(request.url,
            "https://portal.sso.r.amazonaws.com/federation/credentials?account_id=123456789012&role_name=Read%20Only");
  EXPECT_THAT(request.headers, Not(Contains(HasSubstr("login-token"))));
  EXPECT_THAT(all_headers(request), Contains("x-amz-sso_bearer_token: login-token"));
  temporary_.write("sso.json", login("2020-01-01T00:00:00Z"));
  EXPECT_EQ(text(source, client),
            "forbidden: single sign-on: the login has expired; run: aws sso login --profile 'my work'");
  temporary_.write("sso.json", login("2199-01-01T00:00:00Z"));
  EXPECT_THAT(text(source, client), StartsWith("id "));
  EXPECT_THAT(client.requests(), SizeIs(2));
}

TEST_F(KeySourcesTest, SingleSignOnWithoutALoginNamesTheCommand) {
  temporary_.write("sso.json", R"({"accessToken": "t", "expiresAt": "2199-01-01T00:00:00Z"})");
  ScriptedClient refusing([](const auto&) { return page(401, R"({"message": "Session token not found"})"); });
  const auto source_of = [&](const char* file) {
    return single_sign_on(
        {.url = "https://p", .token_file = temporary_.path(file), .account = "1", .role = "r", .profile = "p"});
  };
  EXPECT_THAT(text(source_of("sso.json"), refusing), EndsWith("run: aws sso login --profile p"));
  EXPECT_THAT(text(source_of("absent"), refusing), EndsWith("run: aws sso login --profile p"));
  EXPECT_EQ(sso_token_file("abc"), "a9993e364706816aba3e25717850c26c9cd0d89d.json") << "SHA-1 of FIPS 180-4";
}

TEST(KeyRequests, AnswerAbove16KiBIsRefused) {
  ScriptedClient client([](const auto&) { return page(200, std::string(16 * 1024 + 1, ' ')); });
  EXPECT_THAT(text(container({.url = "http://169.254.170.2/x"}), client), HasSubstr("larger than 16.0 KiB"));
}

TEST(KeyRequests, ExpiryIsReadInEveryNotation) {
  const auto seconds = [](const char* text) {
    const auto found = parse_expiry(text);
    return found ? found->time_since_epoch() / std::chrono::seconds(1) : -1;
  };
  for (const char* const same : {"2026-10-08T12:34:56Z", "2026-10-08T12:34:56.123Z", "2026-10-08T12:34:56UTC",
                                 "2026-10-08T12:34:56+00:00", "2026-10-08T14:34:56+02:00", "2026-10-08T10:04:56-0230"})
    EXPECT_EQ(seconds(same), 1791462896) << same;
  for (const char* const wrong : {"", "soon", "2026-10-08", "2026-10-08T12:34:56", "2026-10-08T12:34:56X",
                                  "1969-10-08T12:34:56Z", "9999-10-08T12:34:56Z", "2026-10-08T12:34:56+2"})
    EXPECT_EQ(seconds(wrong), -1) << wrong;
}

// The rule that stops a variable of the environment from sending a token elsewhere.
TEST(KeyRequests, KeysAreRequestedFromHttpsAndAddressesOfAwsOnly) {
  for (const char* const url :
       {"https://any.example/x", "http://127.0.0.1:8080/x", "http://localhost/x", "http://[::1]:1/x",
        "http://169.254.170.2/x", "http://169.254.170.23/v1/credentials", "http://[fd00:ec2::23]/v1/credentials",
        "http://169.254.169.254", "http://[fd00:ec2::254]"})
    EXPECT_TRUE(may_give_keys(url)) << url;
  for (const char* const url :
       {"", "nonsense", "ftp://127.0.0.1/", "http://any.example/", "http://169.254.170.3/", "http://169.254.1.1/",
        "http://10.0.0.1/", "http://169.254.170.2.example/", "http://169.254.170.2@evil.example/",
        "https://user:password@any.example/", "http://[fd00:ec2::24]/"})
    EXPECT_FALSE(may_give_keys(url)) << url;
}

}  // namespace
}  // namespace weightfs::aws::key_sources_test
