#include "cache/registry/credentials.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <future>
#include <thread>

#include "tests/cache/site.h"
#include "tests/support/ssh_key.h"
#include "tests/support/temporary.h"

namespace weightfs::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

class RegistryCredentialsTest : public testing::Test {
 protected:
  void has_key() { keys.ollama_key = temporary.write("id_ed25519", kSshKey); }
  void has_login() {
    keys.docker_config =
        temporary.write("config.json", R"({"auths":{")" + site.host() + R"(":{"auth":"bWU6c2VjcmV0"}}})");
  }
  std::shared_ptr<RegistryCredentials> credentials() { return credentials_of(site.url()); }
  std::shared_ptr<RegistryCredentials> credentials_of(const std::string& registry) {
    return std::make_shared<RegistryCredentials>(http, registry, keys,
                                                 Chance{[this] { return now.load(); }, [] { return "nonce"; }});
  }
  /// The Authorization header after such a challenge, or the error.
  std::string told(RegistryCredentials& asked, const std::string& challenge) {
    const auto met = asked.challenged({{challenge}, asked.authorization(), from_public}, stop);
    if (!met) return "error: " + met.error().message;
    return *met ? asked.authorization() : "not met, asked " + asked.tried();
  }
  std::string told(const std::string& challenge) { return told(*credentials(), challenge); }

  /// A challenge whose realm is there.
  static std::string bearer(const std::string& realm, const std::string& service) {
    return "Bearer realm=\"" + realm + "\",service=\"" + service + "\",scope=\"repository:a/b:pull\"";
  }

  TemporaryDirectory temporary;
  Site site;
  Site other;
  HttpPtr http = std::make_shared<Http>(HttpOptions{});
  Keys keys;
  std::atomic<int64_t> now = 1'700'000'000;
  std::atomic<bool> stop = false;
  bool from_public = false;  // the challenge
};

constexpr const char* kToken = R"({"token":"T","expires_in":100})";
constexpr const char* kBasic = "Basic bWU6c2VjcmV0";

TEST_F(RegistryCredentialsTest, ATokenForNobody) {
  other.json("/token", kToken);
  EXPECT_EQ(told(bearer(other.url("/token"), "docker")), "Bearer T");
  EXPECT_THAT(other.asked(), ElementsAre("GET /token?scope=repository%3Aa%2Fb%3Apull&service=docker"));
  EXPECT_THAT(other.authorizations(), ElementsAre(""));
  EXPECT_THAT(site.asked(), IsEmpty());
}

TEST_F(RegistryCredentialsTest, ATokenForADockerLogin) {
  has_login();
  other.json("/token", kToken);
  const auto asked = credentials();
  EXPECT_EQ(told(*asked, bearer(other.url("/token"), "docker")), "Bearer T");
  EXPECT_THAT(other.authorizations(), ElementsAre(kBasic));
  EXPECT_EQ(asked->tried(), "as \"me\" of " + keys.docker_config);
}

TEST_F(RegistryCredentialsTest, ALoginOfAnotherRegistryIsNotSent) {
  has_login();
  other.json("/token", kToken);
  EXPECT_EQ(told(*credentials_of(other.url()), bearer(other.url("/token"), "docker")), "Bearer T");
  EXPECT_THAT(other.authorizations(), ElementsAre(""));
}

TEST_F(RegistryCredentialsTest, ATokenForAnOllamaKey) {
  has_key();
  site.json("/v2/token", kToken);
  EXPECT_EQ(told(bearer(site.url("/v2/token"), "ollama")), "Bearer T");
  EXPECT_THAT(site.asked(), ElementsAre("GET /v2/token?nonce=nonce&scope=repository%3Aa%2Fb%3Apull&service=ollama"
                                        "&ts=1700000000"));
  EXPECT_THAT(site.authorizations(), ElementsAre(StartsWith(std::string(kSshPublicKey) + ":")));
}

TEST_F(RegistryCredentialsTest, NothingIsSignedForAnotherHost) {
  has_key();
  other.json("/v2/token", kToken);
  EXPECT_EQ(told(bearer(other.url("/v2/token"), "ollama")), "Bearer T");
  EXPECT_THAT(other.asked(), ElementsAre("GET /v2/token?scope=repository%3Aa%2Fb%3Apull&service=ollama"));
  EXPECT_THAT(other.authorizations(), ElementsAre(""));
}

TEST_F(RegistryCredentialsTest, ALoginComesBeforeAKeyThatIsNotAskedFor) {
  has_key();
  has_login();
  site.json("/v2/token", kToken);
  EXPECT_EQ(told(bearer(site.url("/v2/token"), "container_registry")), "Bearer T");
  EXPECT_EQ(told(bearer(site.url("/v2/token"), "ollama")), "Bearer T");
  EXPECT_THAT(site.authorizations(), ElementsAre(kBasic, StartsWith(kSshPublicKey)));
}

TEST_F(RegistryCredentialsTest, WhoDoesNotKnowTheKeyIsAskedForATokenForNobody) {
  has_key();
  site.put("/v2/token", [](const SeenRequest& request, Wire& wire) {
    const bool nobody = request.header("authorization").empty();
    wire.send(nobody ? answer("200 OK", kToken) : answer("401 Unauthorized", ""));
  });
  EXPECT_EQ(told(bearer(site.url("/v2/token"), "container_registry")), "Bearer T");
  EXPECT_THAT(site.authorizations(), ElementsAre(StartsWith(kSshPublicKey), ""));
  EXPECT_EQ(told(bearer(site.url("/v2/token"), "ollama")),
            "error: access denied: no token from " + site.url("/v2/token") + ": status 401 (asked with the key " +
                keys.ollama_key + ")");
}

TEST_F(RegistryCredentialsTest, AKeyThatCannotBeReadIsAnErrorOnlyWhenItIsNeeded) {
  keys.ollama_key = temporary.write("id_ed25519", "rubbish");
  other.json("/token", kToken);
  site.json("/v2/token", kToken);
  EXPECT_EQ(told(bearer(other.url("/token"), "ollama")), "Bearer T");
  EXPECT_EQ(told(bearer(site.url("/v2/token"), "ollama")),
            "error: " + keys.ollama_key + ": private key: not an OpenSSH private key file");
  keys.ollama_key = temporary.path("none");
  EXPECT_THAT(told(bearer(site.url("/v2/token"), "ollama")), StartsWith("error: " + keys.ollama_key));
  EXPECT_THAT(site.asked(), IsEmpty());
}

TEST_F(RegistryCredentialsTest, SaysWhichKeysThereWereNone) {
  site.put("/v2/token", answer("401 Unauthorized", ""));
  EXPECT_THAT(told(bearer(site.url("/v2/token"), "ollama")),
              HasSubstr("(asked without a name: there is no ollama key, and there is no docker config)"));
  keys.docker_config = temporary.write("config.json", "{}");
  EXPECT_THAT(told(bearer(site.url("/v2/token"), "x")),
              HasSubstr("(asked without a name: " + keys.docker_config + " has no login for " + site.host() + ")"));
  keys.docker_config = temporary.write("config.json", "{");
  EXPECT_THAT(told(bearer(site.url("/v2/token"), "x")), StartsWith("error: " + keys.docker_config + ": invalid JSON"));
}

TEST_F(RegistryCredentialsTest, ARealmThatIsNoPlaceToAskIsRefused) {
  has_key();
  has_login();
  for (const std::string realm : {"", "nowhere", "ftp://127.0.0.1/token", "file:///etc/passwd"})
    EXPECT_THAT(told(bearer(realm, "ollama")), HasSubstr("no URL for that")) << realm;
  EXPECT_THAT(told(bearer("http://me:x@" + site.host() + "/v2/token", "ollama")), HasSubstr("no URL for that"));
  EXPECT_THAT(told(bearer(site.url("/v2/to ken"), "ollama")), HasSubstr("no URL for that"));
  EXPECT_EQ(told(bearer("http://registry.example/token", "ollama")),
            "error: " + site.url() +
                " names \"http://registry.example/token\" to ask for a token: another host is asked only over https");
  EXPECT_THAT(site.asked(), IsEmpty());
}

TEST_F(RegistryCredentialsTest, APublicRegistrysRealmIsAtNoPrivateAddress) {
  has_key();
  site.json("/v2/token", kToken);
  other.json("/token", kToken);
  from_public = true;
  EXPECT_EQ(told(bearer(other.url("/token"), "docker")),
            "error: " + other.url("/token") +
                ": refused: 127.0.0.1 is a loopback address, and what a public address names may only lead to public "
                "ones unless --allow-private-urls is given (asked without a name: there is no docker config)");
  EXPECT_THAT(told(bearer(site.url("/v2/token"), "ollama")), HasSubstr("127.0.0.1 is a loopback address"));
  EXPECT_THAT(site.asked(), IsEmpty());
  EXPECT_THAT(other.asked(), IsEmpty());
  http = std::make_shared<Http>(HttpOptions{.allow_private_urls = true});
  EXPECT_EQ(told(bearer(other.url("/token"), "docker")), "Bearer T");
}

TEST_F(RegistryCredentialsTest, ABasicChallengeIsMetWithTheLogin) {
  EXPECT_EQ(told("Basic realm=\"x\""), "not met, asked without a name: there is no docker config");
  has_login();
  const auto asked = credentials();
  EXPECT_EQ(told(*asked, "Basic realm=\"x\""), kBasic);
  EXPECT_EQ(told(*asked, "Basic realm=\"x\""), "not met, asked as \"me\" of " + keys.docker_config);
  EXPECT_THAT(site.asked(), IsEmpty());
}

TEST_F(RegistryCredentialsTest, OfSeveralChallengesATokenIsPreferred) {
  has_login();
  site.json("/token", kToken);
  EXPECT_EQ(told("Negotiate, Basic realm=\"x\", " + bearer(site.url("/token"), "x")), "Bearer T");
  EXPECT_THAT(told("Negotiate"), StartsWith("not met"));
}

// A registry elsewhere, over http, as --insecure allows: a proxy stands in for it.
TEST_F(RegistryCredentialsTest, ALoginIsNotSentOverHttp) {
  HttpServer proxy([](const SeenRequest&, Wire& wire) { wire.send(answer("200 OK", kToken)); });
  ::setenv("http_proxy", proxy.url("").c_str(), 1);
  keys.docker_config = temporary.write("config.json", R"({"auths":{"registry.example":{"auth":"bWU6c2VjcmV0"}}})");
  http = std::make_shared<Http>(HttpOptions{.insecure = true});
  const auto asked = credentials_of("http://registry.example");
  EXPECT_EQ(told(*asked, "Basic realm=\"x\""),
            "not met, asked without a name: the login of " + keys.docker_config + " is not sent over http");
  EXPECT_EQ(told(*asked, bearer("http://registry.example/token", "x")), "Bearer T");
  ::unsetenv("http_proxy");
  const auto requests = proxy.requests();
  ASSERT_EQ(requests.size(), 1U);
  EXPECT_THAT(requests[0].target, StartsWith("http://registry.example/token?"));
  EXPECT_EQ(requests[0].header("authorization"), "");
}

TEST_F(RegistryCredentialsTest, ATokenIsUsedUntilItsTimeIsOver) {
  site.json("/token", kToken);
  const auto asked = credentials();
  EXPECT_EQ(asked->authorization(), "");
  EXPECT_EQ(told(*asked, bearer(site.url("/token"), "x")), "Bearer T");
  now += 99;
  EXPECT_EQ(asked->authorization(), "Bearer T");
  now += 1;
  EXPECT_EQ(asked->authorization(), "");
  EXPECT_EQ(told(*asked, bearer(site.url("/token"), "x")), "Bearer T");
  EXPECT_EQ(site.asked().size(), 2U);
}

TEST_F(RegistryCredentialsTest, ATokenThatWasRefusedIsRenewedUnlessItStaysTheSame) {
  std::atomic<int> count = 0;
  site.put("/token", [&](const SeenRequest&, Wire& wire) {
    wire.send(answer("200 OK", ++count == 1 ? R"({"token":"one"})" : R"({"token":"two"})"));
  });
  const auto asked = credentials();
  const std::string challenge = bearer(site.url("/token"), "x");
  EXPECT_EQ(told(*asked, challenge), "Bearer one");
  EXPECT_EQ(told(*asked, challenge), "Bearer two");
  EXPECT_EQ(asked->challenged({{challenge}, "Bearer one"}, stop), true);  // sent before it was renewed: no request
  EXPECT_EQ(site.asked().size(), 2U);
  EXPECT_THAT(told(*asked, challenge), StartsWith("not met"));
  EXPECT_EQ(site.asked().size(), 3U);
}

// Holds the first request for a token until the test lets it go.
class ManyThreadsTest : public RegistryCredentialsTest {
 protected:
  struct Gate {
    std::atomic<int> count = 0;
    std::promise<void> arrived;
    std::promise<void> let_go;
  };
  void hold_the_first() {
    site.put("/token", [gate = gate](const SeenRequest&, Wire& wire) {
      if (++gate->count == 1) {
        gate->arrived.set_value();
        gate->let_go.get_future().wait();
      }
      wire.send(answer("200 OK", kToken));
    });
  }
  const std::shared_ptr<Gate> gate = std::make_shared<Gate>();  // a held answer may outlive the test
};

TEST_F(ManyThreadsTest, OneAsksForAllOfThem) {
  hold_the_first();
  const auto asked = credentials();
  std::vector<std::future<std::string>> all;
  for (int i = 0; i < 8; ++i)
    all.push_back(std::async(std::launch::async, [&] {
      const auto met = asked->challenged({{bearer(site.url("/token"), "x")}, ""}, stop);
      return met && *met ? asked->authorization() : "not met";
    }));
  gate->arrived.get_future().wait();
  gate->let_go.set_value();
  for (auto& one : all) EXPECT_EQ(one.get(), "Bearer T");
  EXPECT_EQ(site.asked().size(), 1U);
}

TEST_F(ManyThreadsTest, OneThatIsStoppedDoesNotWait) {
  hold_the_first();
  const auto asked = credentials();
  auto first = std::async(std::launch::async, [&] { return told(*asked, bearer(site.url("/token"), "x")); });
  gate->arrived.get_future().wait();
  const std::atomic<bool> stopped = true;
  const auto met = asked->challenged({{bearer(site.url("/token"), "x")}, ""}, stopped);
  ASSERT_FALSE(met);
  EXPECT_EQ(met.error().code, Code::network);
  gate->let_go.set_value();
  EXPECT_EQ(first.get(), "Bearer T");
}

TEST_F(ManyThreadsTest, WhenTheOneThatAsksIsStoppedAnotherDoes) {
  hold_the_first();
  const auto asked = credentials();
  std::atomic<bool> stopped = false;
  const std::string challenge = bearer(site.url("/token"), "x");
  auto first = std::async(std::launch::async, [&] { return asked->challenged({{challenge}, ""}, stopped); });
  gate->arrived.get_future().wait();
  auto second = std::async(std::launch::async, [&] { return told(*asked, challenge); });
  stopped = true;
  EXPECT_FALSE(first.get());
  EXPECT_EQ(second.get(), "Bearer T");
  EXPECT_EQ(site.asked().size(), 2U);
  gate->let_go.set_value();
}

}  // namespace
}  // namespace weightfs::test
