#include "protocols/credential_helpers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/temporary.h"

namespace weightfs::test::credential_helpers_test {
namespace {

using namespace registry;
using testing::ElementsAre;
using testing::Pair;

class CredentialHelpersTest : public testing::Test {
 protected:
  std::string describe() {
    const auto login = helpers.login({"keys", "h.example"}, {});
    if (!login) return "error: " + login.error().message;
    return login->identity_token.empty() ? login->user + ":" + login->password : "token " + login->identity_token;
  }
  /// The login in another answer, without the limit of time.
  std::string describe(int status, const std::string& text) {
    output = HelperOutput{status, text};
    now += CredentialHelpers::kBetweenAnswers;
    return describe();
  }

  Result<HelperOutput> output = HelperOutput{};
  int runs = 0;
  CredentialHelpers::Clock::time_point now = {};
  CredentialHelpers helpers{[this](const HelperUse&, const std::stop_token&) {
                              ++runs;
                              return output;
                            },
                            [this] { return now; }};
};

TEST(HelperName, HasLowerCaseLettersDigitsAndDashes) {
  for (const char* const name : {"ecr-login", "osxkeychain", "gcr", "a1"}) EXPECT_TRUE(is_helper_name(name)) << name;
  for (const std::string name : {"", "..", "a/b", "A", "a b", "a.b", "a_b", "a\n", "ä"})
    EXPECT_FALSE(is_helper_name(name));
  EXPECT_TRUE(is_helper_name(std::string(64, 'a')));
  EXPECT_FALSE(is_helper_name(std::string(65, 'a')));
}

TEST_F(CredentialHelpersTest, AnswersAreLoginsAndIdentityTokens) {
  EXPECT_EQ(describe(0, R"({"ServerURL":"h.example","Username":"me","Secret":"a:b"})"), "me:a:b");
  EXPECT_EQ(describe(0, R"({"Username":"<token>","Secret":"T"})"), "token T");
}

TEST_F(CredentialHelpersTest, HostileAnswersAreRefusedWithoutTheirText) {
  EXPECT_EQ(describe(0, "secret"), "error: printed no login: not a JSON object");
  EXPECT_EQ(describe(0, ""), "error: printed no login: not a JSON object");
  EXPECT_EQ(describe(0, R"(["secret"])"), "error: printed no login: not a JSON object");
  EXPECT_EQ(describe(0, std::string(30'000, '[')), "error: printed no login: not a JSON object");
  for (const char* const text :
       {"{}", R"({"Username":1,"Secret":"s"})", R"({"Username":"u","Secret":""})", R"({"Username":"u"})"})
    EXPECT_EQ(describe(0, text), "error: printed no login: Username and Secret expected") << text;
  for (const char* const user : {"", "a:b", "a\\n"})
    EXPECT_EQ(describe(0, R"({"Username":")" + std::string(user) + R"(","Secret":"s"})"),
              "error: printed no login: not a valid user name")
        << user;
  EXPECT_EQ(describe(1, "secret"), "error: failed with exit status 1");
  EXPECT_EQ(describe(1, R"({"Username":"u","Secret":"s"})"), "error: failed with exit status 1");
  EXPECT_EQ(describe(1, "credentials not found in native keychain\n"), "error: has no login");
}

TEST_F(CredentialHelpersTest, IsAskedAgainAfterTenSeconds) {
  output = HelperOutput{0, R"({"Username":"me","Secret":"old"})"};
  EXPECT_EQ(describe(), "me:old");
  output = HelperOutput{0, R"({"Username":"me","Secret":"new"})"};
  now += std::chrono::milliseconds(9'999);
  EXPECT_EQ(describe(), "me:old");
  EXPECT_EQ(runs, 1);
  now += std::chrono::milliseconds(1);
  EXPECT_EQ(describe(), "me:new");
  EXPECT_EQ(runs, 2);
}

// Else the next read would fail for that of another reader.
TEST_F(CredentialHelpersTest, CancelledRunIsNotKept) {
  output = failure(Code::network, "stopped");
  EXPECT_EQ(helpers.login({"keys", "h.example"}, {}).error().code, Code::network);
  output = HelperOutput{0, R"({"Username":"me","Secret":"x"})"};
  EXPECT_EQ(describe(), "me:x");
}

TEST(ConfiguredHelpers, AreThoseOfTheRegistries) {
  const TemporaryDirectory temporary;
  CredentialPaths paths;
  paths.auth_files = {temporary.path("none.json"), temporary.write("auth.json", "not JSON"),
                      temporary.write("b.json", R"({"credHelpers":{"h.example":"a","i.example":"b"}})")};
  paths.docker_config = temporary.write("config.json", R"({"credsStore":"c"})");
  EXPECT_THAT(configured_helpers(paths, {"h.example"}),
              ElementsAre(Pair(HelperUse{"a", "h.example"}, paths.auth_files[2]),
                          Pair(HelperUse{"c", "h.example"}, paths.docker_config)));
  EXPECT_THAT(configured_helpers(paths, {}), ElementsAre());
}

}  // namespace
}  // namespace weightfs::test::credential_helpers_test
