#include "protocols/registry/auth_challenge.h"

#include <gtest/gtest.h>

namespace weightfs::test::auth_challenge_test {
namespace {

using namespace registry;

// "scheme name=value name=value; scheme …"
std::string describe(std::string_view header) {
  std::string out;
  for (const AuthChallenge& challenge : parse_challenges(header)) {
    out += (out.empty() ? "" : "; ") + challenge.scheme;
    for (const auto& [name, value] : challenge.parameters) out += " " + name + "=" + value;
  }
  return out;
}

TEST(AuthChallenge, HasSchemeAndParameters) {
  const auto challenges = parse_challenges(
      R"(Bearer realm="https://auth.docker.io/token",service="registry.docker.io",scope="repository:library/x:pull")");
  ASSERT_EQ(challenges.size(), 1U);
  EXPECT_EQ(challenges[0].scheme, "bearer");
  EXPECT_EQ(challenges[0].parameter("realm"), "https://auth.docker.io/token");
  EXPECT_EQ(challenges[0].parameter("service"), "registry.docker.io");
  EXPECT_EQ(challenges[0].parameter("scope"), "repository:library/x:pull");
  EXPECT_EQ(challenges[0].parameter("error"), "");
}

TEST(AuthChallenge, NamesAreCaseInsensitiveAndSpacesAreIgnored) {
  EXPECT_EQ(describe("BEARER Realm = \"https://x/\" ,\t SERVICE=\"A\""), "bearer realm=https://x/ service=A");
  EXPECT_EQ(describe("Basic realm=plain"), "basic realm=plain");
  EXPECT_EQ(describe("Bearer realm=https://x/token,service=a"), "bearer realm=https://x/token service=a");
}

TEST(AuthChallenge, FirstOfDuplicateParametersWins) {
  EXPECT_EQ(parse_challenges("Bearer realm=a, realm=b")[0].parameter("realm"), "a");
}

TEST(AuthChallenge, QuotedTextMayHoldCommasAndEscapes) {
  EXPECT_EQ(describe(R"(Bearer scope="a:pull,push b:pull", realm="q\"uo\\te")"),
            R"(bearer scope=a:pull,push b:pull realm=q"uo\te)");
  EXPECT_EQ(describe(R"(Bearer realm="", service="x, Basic realm=y")"), "bearer realm= service=x, Basic realm=y");
}

// RFC 9110, section 11.6.1: the header of its example, and a scheme alone.
TEST(AuthChallenge, SeveralAreParsedFromOneHeader) {
  EXPECT_EQ(describe(R"(Basic realm="simple", Newauth realm="apps", type=1, title="Login to \"apps\"")"),
            R"(basic realm=simple; newauth realm=apps type=1 title=Login to "apps")");
  EXPECT_EQ(describe(R"(Negotiate, Bearer realm="x")"), "negotiate; bearer realm=x");
  EXPECT_EQ(describe(R"(Negotiate YWJj/+==, Bearer realm="x")"), "negotiate; bearer realm=x");
  EXPECT_EQ(describe(R"(Bearer realm="x",Basic realm="y")"), "bearer realm=x; basic realm=y");
}

// Ollama takes a text up to the quotation mark that a comma or the end follows.
TEST(AuthChallenge, QuotationMarkInsideQuotedTextIsKept) {
  EXPECT_EQ(describe(R"(Bearer realm="https://x/v2/token",service="ollama",scope="a "b" c")"),
            R"(bearer realm=https://x/v2/token service=ollama scope=a "b" c)");
}

TEST(AuthChallenge, InvalidSyntaxIsSkipped) {
  EXPECT_EQ(describe(""), "");
  EXPECT_EQ(describe(" , ,, "), "");
  EXPECT_EQ(describe("=x, \"quoted\", Basic realm=y"), "basic realm=y");
  EXPECT_EQ(describe("realm=x"), "");
  EXPECT_EQ(describe("Bearer realm=\"open"), "bearer");
  EXPECT_EQ(describe("Bearer realm=\"open\\"), "bearer");
  EXPECT_EQ(describe("Bearer realm=\"x\" trailing, service=y"), "bearer");
}

TEST(AuthChallenge, NumberIsBounded) {
  std::string many;
  for (int i = 0; i < 1000; ++i) many += "Basic realm=x,";
  EXPECT_EQ(parse_challenges(many).size(), 16U);
  many = "Basic ";
  for (int i = 0; i < 1000; ++i) many += "a=b,";
  ASSERT_EQ(parse_challenges(many).size(), 1U);
  EXPECT_EQ(parse_challenges(many)[0].parameters.size(), 32U);
}

}  // namespace
}  // namespace weightfs::test::auth_challenge_test
