#include "protocols/registry/token.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cache/direct_client.h"
#include "tests/cache/site.h"
#include "tests/support/ssh_key.h"

namespace weightfs::test::token_test {
namespace {

using namespace registry;
using testing::ElementsAre;
using testing::HasSubstr;

AuthChallenge challenge(const std::string& header) { return parse_challenges(header).at(0); }

// The values of Python's urllib.parse.quote_plus, which has Go's rules.
TEST(TokenQuery, IsEncodedAsInGo) {
  EXPECT_EQ(query_of({{"q", "a b*c'(d)~e!/?&=+%,:\xC3\xBC@$;"}}),
            "q=a+b%2Ac%27%28d%29~e%21%2F%3F%26%3D%2B%25%2C%3A%C3%BC%40%24%3B");
  EXPECT_EQ(query_of({{"b", "2"}, {"a", "z"}, {"B", ""}, {"a", "a"}}), "B=&a=z&a=a&b=2");
  EXPECT_EQ(query_of({}), "");
}

TEST(TokenUrl, HasServiceAndEachScope) {
  EXPECT_EQ(token_url(challenge(R"(Bearer realm="https://r.ollama.ai/v2/token",service="ollama",scope="-")")),
            "https://r.ollama.ai/v2/token?scope=-&service=ollama");
  EXPECT_EQ(token_url(challenge(R"(Bearer realm="https://x/t",scope="r:b:pull,push r:a:pull",service="a b")")),
            "https://x/t?scope=r%3Ab%3Apull%2Cpush&scope=r%3Aa%3Apull&service=a+b");
  EXPECT_EQ(token_url(challenge(R"(Bearer realm="https://x/t")")), "https://x/t");
}

TEST(TokenUrl, KeepsQueryOfRealm) {
  EXPECT_EQ(token_url(challenge(R"(Bearer realm="https://x/t?tenant=a%20b+c%2&z&&service=x#part",service="y")")),
            "https://x/t?service=x&service=y&tenant=a+b+c%252&z=");
}

// Signed with `openssl pkeyutl -sign -rawin`, the URL made by urllib.parse.
TEST(TokenSignature, SignsTheUrl) {
  const AuthChallenge challenged = challenge(R"(Bearer realm="https://r.ollama.ai/v2/token",service="ollama",)"
                                             R"(scope="repository:me/pirate:pull,push repository:other/x:pull")");
  const std::string url = token_url(challenged, {{"ts", "1700000000"}, {"nonce", "AAECAwQFBgcICQoLDA0ODw"}});
  EXPECT_EQ(url,
            "https://r.ollama.ai/v2/token?nonce=AAECAwQFBgcICQoLDA0ODw&scope=repository%3Ame%2Fpirate%3Apull%2Cpush"
            "&scope=repository%3Aother%2Fx%3Apull&service=ollama&ts=1700000000");
  EXPECT_EQ(signature(SigningKey::parse(kSshKey).value(), url).value(),
            std::string(kSshPublicKey) +
                ":rmNixWbj/41usyXP69ce3vbI7AfQTJRvBjpZn2R3RlEr60dT4Lv42GtpnL7tfEQ3etFakQOXzgsO9MbYAOZyCw==");
}

// RFC 7617, section 2.
TEST(TokenLogin, MatchesRfcExample) {
  EXPECT_EQ(basic_authorization({"Aladdin", "open sesame"}), "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==");
}

TEST(ClockAndNonce, NonceIsUnique) {
  const ClockAndNonce clock = ClockAndNonce::of_system();
  EXPECT_EQ(clock.nonce().size(), 22U);
  EXPECT_NE(clock.nonce(), clock.nonce());
  EXPECT_GT(clock.seconds(), 1'700'000'000);
}

class TokenAnswerTest : public testing::Test {
 protected:
  /// "token for N s", or the error without the URL.
  std::string describe(const std::string& raw) {
    site.put("/token", raw);
    const auto token = request_token(http, site.url("/token"), "", false, {});
    if (token) return token->value + " for " + std::to_string(token->lifetime) + " s";
    EXPECT_EQ(token.error().code, code);
    std::string message = token.error().message;
    const size_t at = message.find(site.url("/token"));
    return at == std::string::npos ? message : message.erase(at, site.url("/token").size());
  }
  std::string token_of(const std::string& body) { return describe(answer("200 OK", body)); }

  Code code = Code::unsupported;  // of a failure
  Site site;
  http::DirectClient http{http::Options{}};
};

TEST_F(TokenAnswerTest, HasTokenAndLifetime) {
  EXPECT_EQ(token_of(R"({"token":"abc"})"), "abc for 60 s");
  EXPECT_EQ(token_of(R"({"access_token":"abc","expires_in":300})"), "abc for 300 s");
  EXPECT_EQ(token_of(R"({"access_token":"other","token":"abc","expires_in":0})"), "abc for 60 s");
  EXPECT_EQ(token_of(R"({"token":"abc","expires_in":-1,"more":[{}]})"), "abc for 60 s");
  EXPECT_EQ(token_of(R"({"token":"abc","expires_in":9999999999999})"), "abc for 86400 s");
  EXPECT_EQ(token_of(R"({"token":"abc","expires_in":"soon"})"), "abc for 60 s");
  EXPECT_THAT(site.authorizations(), testing::Each(""));
}

TEST_F(TokenAnswerTest, MissingTokenIsRejected) {
  EXPECT_EQ(token_of("{}"), "no token from : no token");
  EXPECT_EQ(token_of("[]"), "no token from : not a JSON object");
  EXPECT_EQ(token_of(R"({"token":""})"), "no token from : no token");
  EXPECT_EQ(token_of(R"({"token":7})"), "no token from : no token");
  EXPECT_EQ(token_of(R"({"token":"a\r\nHost: other"})"), "no token from : no token");
  EXPECT_EQ(token_of(R"({"token":")" + std::string(70'000, 'a') + "\"}"), "no token from : no token");
  EXPECT_THAT(token_of("<"), HasSubstr("no token from : invalid JSON"));
  EXPECT_EQ(token_of("<html>"),
            ": the server sent a web page (text/html), perhaps to log in, not an answer of its API");
}

TEST_F(TokenAnswerTest, OtherStatusReportsReason) {
  code = Code::forbidden;
  EXPECT_EQ(describe(answer("401 Unauthorized", R"({"details":"incorrect username or password"})")),
            "access denied: no token from : status 401, incorrect username or password");
  code = Code::unsupported;
  EXPECT_EQ(describe(answer("400 Bad Request", R"({"error":"no\u001b[31m such"})")),
            "no token from : status 400, no\\x1b[31m such");
  EXPECT_EQ(describe(answer("400 Bad Request", R"({"error":"bad token Ab0123456789cdefghij of Basic QWxhZGRpbg=="})")),
            "no token from : status 400, bad token ... of Basic ...")
      << "a server may repeat what it was sent";
}

TEST_F(TokenAnswerTest, EndlessBodyIsRejected) {
  site.put("/token", [](const SeenRequest&, Wire& wire) {
    wire.send("HTTP/1.1 200 OK\r\n\r\n");
    while (wire.send(std::string(65'536, ' '))) {
    }
  });
  const auto token = request_token(http, site.url("/token"), "", false, {});
  ASSERT_FALSE(token);
  EXPECT_THAT(token.error().message, HasSubstr("larger than 256.0 KiB"));
}

TEST_F(TokenAnswerTest, TemporaryFailureIsRetried) {
  std::atomic<int> count = 0;
  site.put("/token", [&](const SeenRequest&, Wire& wire) {
    if (++count == 1)
      wire.send(answer("503 Service Unavailable", ""));
    else
      wire.send(answer("200 OK", R"({"token":"abc"})"));
  });
  const auto token = request_token(http, site.url("/token"), basic_authorization({"me", "x"}), false, {});
  ASSERT_TRUE(token) << token.error().message;
  EXPECT_THAT(site.authorizations(), ElementsAre("Basic bWU6eA==", "Basic bWU6eA=="));
}

}  // namespace
}  // namespace weightfs::test::token_test
