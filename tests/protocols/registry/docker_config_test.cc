#include "protocols/registry/docker_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/cancel.h"
#include "protocols/registry/logins.h"
#include "tests/support/temporary.h"

namespace weightfs::test::docker_config_test {
namespace {

using namespace registry;
using testing::HasSubstr;

class DockerConfigTest : public testing::Test {
 protected:
  /// "user:password", "none: REASON", either behind "helper NAME of SERVER, ", or "error: MESSAGE" of `host` in a file
  /// of this text.
  std::string describe(const std::string& config, const std::string& host, const std::string& repository = "") {
    const std::string path = temporary.write("config.json", config);
    const auto entry = docker_entry(path, host, repository);
    if (!entry) return "error: " + entry.error().message.substr(path.size());
    if (entry->login && !entry->login->identity_token.empty()) return "identity token " + entry->login->identity_token;
    const std::string helper =
        entry->helper ? "helper " + entry->helper->name + " of " + entry->helper->server + ", " : "";
    return helper + (entry->login ? entry->login->user + ":" + entry->login->password : "none: " + entry->reason);
  }
  TemporaryDirectory temporary;
};

// dXNlcjpwYXNzOndvcmQ= is user:pass:word.
TEST_F(DockerConfigTest, FindsLoginByHost) {
  const std::string config = R"({"auths":{"Other.example":{"auth":"b3RoZXI6eA=="},
    "localhost:5000":{"auth":"dXNlcjpwYXNzOndvcmQ="}, "named.example":{"username":"me","password":"secret"}}})";
  EXPECT_EQ(describe(config, "localhost:5000"), "user:pass:word");
  EXPECT_EQ(describe(config, "other.example"), "other:x");
  EXPECT_EQ(describe(config, "other.example:443"), "other:x");
  EXPECT_EQ(describe(config, "named.example"), "me:secret");
  for (const char* host : {"localhost", "localhost:5001", "example", "named.example.org", "my.other.example", ""})
    EXPECT_EQ(describe(config, host), std::string("none: has no login for ") + host);
}

TEST_F(DockerConfigTest, KeyMayBeUrl) {
  for (const char* key :
       {"https://host.example", "https://host.example/v1/", "http://host.example/v2/", "host.example/"})
    EXPECT_EQ(describe(R"({"auths":{")" + std::string(key) + R"(":{"auth":"dXNlcjp4"}}})", "host.example"), "user:x")
        << key;
  // A login for one repository does not apply to the registry.
  EXPECT_THAT(describe(R"({"auths":{"host.example/team":{"auth":"dXNlcjp4"}}})", "host.example"),
              HasSubstr("has no login"));
}

// containers-auth.json(5): "my-registry.local/namespace/user/image" before "my-registry.local/namespace/user", ….
TEST_F(DockerConfigTest, LongestKeyOfTheRepositoryWins) {
  const std::string config = R"({"auths":{"h.example":{"auth":"aG9zdDp4"},"h.example/a/b":{"auth":"YjpiCg=="},
    "h.example/a/":{"auth":"YTp4"},"docker.io/team":{"auth":"aHViOng="},"https://i.example/v1/":{"auth":"aTp4"}}})";
  EXPECT_EQ(describe(config, "h.example", "a/b"), "b:b\n");
  EXPECT_EQ(describe(config, "h.example", "a/b/c"), "b:b\n");
  EXPECT_EQ(describe(config, "h.example", "a/bc"), "a:x");
  EXPECT_EQ(describe(config, "h.example", "ab"), "host:x");
  EXPECT_EQ(describe(config, "h.example"), "host:x");
  EXPECT_EQ(describe(config, "registry-1.docker.io", "team/tiny"), "hub:x");
  EXPECT_EQ(describe(config, "registry-1.docker.io", "library/tiny"), "none: has no login for registry-1.docker.io");
  EXPECT_EQ(describe(config, "i.example", "v1/tiny"), "i:x");
}

TEST_F(DockerConfigTest, ExactHostKeyWins) {
  EXPECT_EQ(describe(R"({"auths":{"https://h.example/v1/":{"auth":"b2xkOng="},"h.example":{"auth":"bmV3Ong="}}})",
                     "h.example"),
            "new:x");
}

TEST_F(DockerConfigTest, DockerHubHasSeveralNames) {
  for (const char* key : {"https://index.docker.io/v1/", "docker.io", "index.docker.io", "registry-1.docker.io"})
    EXPECT_EQ(
        describe(R"({"auths":{")" + std::string(key) + R"(":{"auth":"aHViOnNlY3JldA=="}}})", "registry-1.docker.io"),
        "hub:secret")
        << key;
}

TEST_F(DockerConfigTest, ReportsUnsupportedLogins) {
  EXPECT_EQ(describe(R"({"auths":{"h.example":{}},"credsStore":"desktop"})", "h.example"),
            "helper desktop of h.example, none: has no login for h.example");
  EXPECT_EQ(describe(R"({"credHelpers":{"h.example":"ecr-login"}})", "h.example"),
            "helper ecr-login of h.example, none: has no login for h.example");
  EXPECT_EQ(describe(R"({"credHelpers":{"https://index.docker.io/v1/":"hub"}})", "registry-1.docker.io"),
            "helper hub of https://index.docker.io/v1/, none: has no login for registry-1.docker.io");
  EXPECT_EQ(describe(R"({"credHelpers":{"h.example":"a"},"credsStore":"b"})", "h.example"),
            "helper a of h.example, none: has no login for h.example");
  EXPECT_EQ(describe(R"({"credHelpers":{"h.example":"a"},"credsStore":"b"})", "i.example"),
            "helper b of i.example, none: has no login for i.example");
  EXPECT_EQ(describe(R"({"credHelpers":{"h.example":""},"credsStore":"b"})", "h.example"),
            "none: has no login for h.example");
  EXPECT_EQ(describe(R"({"credHelpers":{"h.example":"ecr-login"}})", "i.example"), "none: has no login for i.example");
  EXPECT_EQ(describe(R"({"auths":{"h.example":{"auth":"dXNlcjo=","identitytoken":"t"}}})", "h.example"),
            "identity token t");
  EXPECT_EQ(describe(R"({"auths":{"h.example":{"auth":"dXNlcjp4"}},"credsStore":"desktop"})", "h.example"),
            "helper desktop of h.example, user:x");
}

TEST_F(DockerConfigTest, ReportsInvalidConfig) {
  EXPECT_EQ(describe(R"({"auths":{"h.example":{"auth":"!"}}})", "h.example"),
            "error: : \"auth\" is not base64 of user:password");
  EXPECT_EQ(describe(R"({"auths":{"h.example":{"auth":"dXNlcg=="}}})", "h.example"),
            "error: : \"auth\" is not base64 of user:password");
  EXPECT_EQ(describe("[]", "h.example"), "error: : not a JSON object");
  EXPECT_THAT(describe("{", "h.example"), HasSubstr("invalid JSON"));
  EXPECT_EQ(describe(std::string(1 << 20, ' ') + "{}", "h.example"),
            "error: : docker config of 1.0 MiB, at most 1 MiB is allowed");
  EXPECT_EQ(docker_entry(temporary.path("none.json"), "h.example").error().code, Code::not_found);
}

// Values of the wrong type are ignored.
TEST_F(DockerConfigTest, UnexpectedValuesAreIgnored) {
  for (const char* config :
       {"{}", R"({"auths":[]})", R"({"auths":{"h.example":"x"}})", R"({"auths":{"h.example":{"auth":1}}})",
        R"({"auths":{"h.example":{"username":"u"}}})", R"({"credHelpers":{"h.example":{}}})"})
    EXPECT_EQ(describe(config, "h.example"), "none: has no login for h.example") << config;
}

// Else the request would be sent without the login, and an anonymous token kept.
TEST_F(DockerConfigTest, CancelledReadIsNoMissingLogin) {
  CredentialPaths paths;
  paths.docker_config = temporary.write("config.json", R"({"auths":{"h.example":{"auth":"dXNlcjpwYXNz"}}})");
  const auto found = find_login(paths, "h.example", "");
  ASSERT_TRUE(found && found->login);
  const CancelScope scope([] { return true; });
  const auto cancelled = find_login(paths, "h.example", "");
  ASSERT_FALSE(cancelled);
  EXPECT_EQ(cancelled.error().code, Code::network);
}

}  // namespace
}  // namespace weightfs::test::docker_config_test
