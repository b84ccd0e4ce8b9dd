#include "protocols/registry/credentials.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <future>
#include <stop_token>
#include <thread>

#include "base/cancel.h"
#include "cache/direct_client.h"
#include "cache/download/request_with_retry.h"
#include "tests/cache/site.h"
#include "tests/support/ssh_key.h"
#include "tests/support/temporary.h"

namespace weightfs::test::credentials_test {
namespace {

using namespace registry;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

class RegistryCredentialsTest : public testing::Test {
 protected:
  void has_key() { paths.ollama_key = temporary.write("id_ed25519", kSshKey); }
  void has_login() {
    paths.docker_config =
        temporary.write("config.json", R"({"auths":{")" + site.host() + R"(":{"auth":"bWU6c2VjcmV0"}}})");
  }
  std::shared_ptr<Credentials> credentials() { return credentials_of(site.url()); }
  std::shared_ptr<Credentials> credentials_of(const std::string& registry) {
    return std::make_shared<Credentials>(http, registry, paths, std::vector<std::string>(),
                                         ClockAndNonce{[this] { return now.load(); }, [] { return "nonce"; }});
  }
  http::Response unauthorized(const std::string& challenge) const {
    return {401, {{"www-authenticate", challenge}}, site.url(), from_public};
  }
  /// The Authorization header after the challenge, or the error.
  std::string describe(Credentials& challenged, const std::string& challenge) {
    const auto met = challenged.on_unauthorized(unauthorized(challenge), {0, challenged.authorization()}, {});
    if (!met) return "error: " + met.error().message;
    return *met ? challenged.authorization() : "not met, " + challenged.description();
  }
  std::string describe(const std::string& challenge) { return describe(*credentials(), challenge); }

  /// A challenge with this realm.
  static std::string bearer(const std::string& realm, const std::string& service) {
    return "Bearer realm=\"" + realm + "\",service=\"" + service + "\",scope=\"repository:a/b:pull\"";
  }

  TemporaryDirectory temporary;
  Site site;
  Site other;
  http::ClientPtr http = std::make_shared<http::DirectClient>(http::Options{});
  CredentialPaths paths;
  std::atomic<int64_t> now = 1'700'000'000;
  bool from_public = false;  // the challenge
};

constexpr const char* kToken = R"({"token":"T","expires_in":100})";
constexpr const char* kBasic = "Basic bWU6c2VjcmV0";

TEST_F(RegistryCredentialsTest, AnonymousTokenWithoutCredentials) {
  other.json("/token", kToken);
  EXPECT_EQ(describe(bearer(other.url("/token"), "docker")), "Bearer T");
  EXPECT_THAT(other.requests_seen(), ElementsAre("GET /token?scope=repository%3Aa%2Fb%3Apull&service=docker"));
  EXPECT_THAT(other.authorizations(), ElementsAre(""));
  EXPECT_THAT(site.requests_seen(), IsEmpty());
}

TEST_F(RegistryCredentialsTest, DockerLoginGetsToken) {
  has_login();
  other.json("/token", kToken);
  const auto challenged = credentials();
  EXPECT_EQ(describe(*challenged, bearer(other.url("/token"), "docker")), "Bearer T");
  EXPECT_THAT(other.authorizations(), ElementsAre(kBasic));
  EXPECT_EQ(challenged->description(), "tried as \"me\" of " + paths.docker_config);
  EXPECT_EQ(challenged->key_origin().from, paths.docker_config);
  EXPECT_GT(challenged->key_origin().read.time_since_epoch().count(), 0);
}

TEST_F(RegistryCredentialsTest, ScopeIsRequestedWhenTheChallengeNamesNone) {
  other.json("/token", kToken);
  const std::string plain = "Bearer realm=\"" + other.url("/token") + "\",service=\"x\"";
  EXPECT_EQ(describe(*credentials_of(site.url("/v2/team/tiny")), plain), "Bearer T");
  EXPECT_EQ(describe(plain), "Bearer T");
  EXPECT_EQ(describe(*credentials_of(site.url("/v2/team/tiny")), bearer(other.url("/token"), "x")), "Bearer T");
  EXPECT_THAT(other.requests_seen(),
              ElementsAre("GET /token?scope=repository%3Ateam%2Ftiny%3Apull&service=x", "GET /token?service=x",
                          "GET /token?scope=repository%3Aa%2Fb%3Apull&service=x"));
}

// distribution, "Oauth2 Token Authentication".
TEST_F(RegistryCredentialsTest, IdentityTokenIsExchangedByPost) {
  paths.docker_config = temporary.write(
      "config.json", R"({"auths":{")" + site.host() + R"(":{"auth":"bWU6","identitytoken":"s3cret t"}}})");
  other.json("/token", R"({"access_token":"T","refresh_token":"ignored","expires_in":100})");
  const auto challenged = credentials_of(site.url("/v2/team/tiny"));
  EXPECT_EQ(describe(*challenged, "Bearer realm=\"" + other.url("/token") + "\",service=\"x\""), "Bearer T");
  EXPECT_EQ(challenged->description(), "tried with the identity token of " + paths.docker_config);
  EXPECT_EQ(challenged->key_origin().from, paths.docker_config);
  EXPECT_THAT(other.requests_seen(), ElementsAre("POST /token"));
  EXPECT_THAT(other.authorizations(), ElementsAre(""));
  const SeenRequest request = other.requests().at(0);
  EXPECT_EQ(request.header("content-type"), "application/x-www-form-urlencoded");
  EXPECT_EQ(request.body,
            "client_id=weightfs&grant_type=refresh_token&refresh_token=s3cret+t&scope=repository%3Ateam%2Ftiny%3Apull"
            "&service=x");
  EXPECT_EQ(describe(*challenged, "Basic realm=\"x\""),
            "not met, " + paths.docker_config + " has only an identity token, and the registry has no token server");
}

TEST_F(RegistryCredentialsTest, IdentityTokenDoesNotFollowRedirects) {
  paths.docker_config =
      temporary.write("config.json", R"({"auths":{")" + site.host() + R"(":{"identitytoken":"s3cret"}}})");
  other.put("/token", answer("307 Temporary Redirect", "", {"Location: " + site.url("/elsewhere")}));
  EXPECT_THAT(describe(bearer(other.url("/token"), "x")),
              HasSubstr(": refused: redirect of a request for keys (tried with the identity token of "));
  EXPECT_THAT(site.requests_seen(), IsEmpty());
}

TEST_F(RegistryCredentialsTest, FirstFileWithLoginWinsAndIsReadAgain) {
  const std::string entry = R"({"auths":{")" + site.host();
  paths.docker_config = temporary.write("config.json", entry + R"(":{"auth":"bWU6c2VjcmV0"}}})");
  paths.auth_files = {temporary.path("none/auth.json"), temporary.write("auth.json", "{}")};
  EXPECT_EQ(describe("Basic realm=\"x\""), kBasic);
  const auto challenged = credentials_of(site.url("/v2/team/tiny"));
  temporary.write("auth.json", entry + R"(/team":{"auth":"cG9kbWFuOng="}}})");
  EXPECT_EQ(describe(*challenged, "Basic realm=\"x\""), "Basic cG9kbWFuOng=");
  EXPECT_EQ(challenged->description(), "tried as \"podman\" of " + paths.auth_files[1]);
  EXPECT_EQ(challenged->key_origin().from, paths.auth_files[1]);
  EXPECT_EQ(describe("Basic realm=\"x\""), kBasic) << "a registry without repository";
  paths.docker_config.clear();
  EXPECT_EQ(describe("Basic realm=\"x\""),
            "not met, tried anonymously: " + paths.auth_files[1] + " has no login for " + site.host());
}

TEST_F(RegistryCredentialsTest, NamesTheCredentialHelperAmongTheFiles) {
  paths.auth_files = {temporary.write("auth.json", R"({"credHelpers":{")" + site.host() + R"(":"ecr-login"}})")};
  paths.docker_config = temporary.write("config.json", "{}");
  EXPECT_EQ(describe("Basic realm=\"x\""),
            "not met, tried anonymously: " + paths.auth_files[0] + " uses the credential helper \"ecr-login\" for " +
                site.host() +
                ", which runs only with --credential-helpers (or use podman login, or a file with the login in "
                "$REGISTRY_AUTH_FILE), and " +
                paths.docker_config + " has no login for " + site.host());
}

TEST_F(RegistryCredentialsTest, HelperIsAskedBeforeTheLoginOfItsFile) {
  std::vector<std::string> asked;
  HelperOutput output{0, R"({"Username":"me","Secret":"x"})"};
  paths.helpers = std::make_shared<CredentialHelpers>([&](const HelperUse& use, const std::stop_token&) {
    asked.push_back(use.name + " " + use.server);
    return Result<HelperOutput>(output);
  });
  paths.docker_config = temporary.write(
      "config.json", R"({"credsStore":"keys","auths":{")" + site.host() + R"(":{"auth":"eW91OnNlY3JldA=="}}})");
  auto challenged = credentials();
  EXPECT_EQ(describe(*challenged, "Basic realm=\"x\""), "Basic bWU6eA==");
  EXPECT_EQ(challenged->description(), "tried as \"me\" of credential helper keys");
  EXPECT_EQ(challenged->key_origin().from, "credential helper keys");
  EXPECT_THAT(asked, ElementsAre("keys " + site.host()));
  output = {1, "credentials not found in native keychain\n"};
  paths.helpers = std::make_shared<CredentialHelpers>(
      [&](const HelperUse&, const std::stop_token&) { return Result<HelperOutput>(output); });
  EXPECT_EQ(describe("Basic realm=\"x\""), "Basic eW91OnNlY3JldA==");
}

TEST_F(RegistryCredentialsTest, FailedHelperIsNamedInTheRefusal) {
  paths.helpers = std::make_shared<CredentialHelpers>([](const HelperUse&, const std::stop_token&) {
    return Result<HelperOutput>(HelperOutput{1, "a secret"});
  });
  paths.docker_config = temporary.write("config.json", R"({"credsStore":"keys"})");
  EXPECT_EQ(describe("Basic realm=\"x\""), "not met, tried anonymously: " + paths.docker_config +
                                               " uses the credential helper \"keys\" for " + site.host() +
                                               ", which failed with exit status 1");
}

TEST_F(RegistryCredentialsTest, LoginOfAnotherRegistryIsNotSent) {
  has_login();
  other.json("/token", kToken);
  const auto challenged = credentials_of(other.url());
  EXPECT_EQ(describe(*challenged, bearer(other.url("/token"), "docker")), "Bearer T");
  EXPECT_EQ(challenged->key_origin().from, "");
  EXPECT_THAT(other.authorizations(), ElementsAre(""));
}

TEST_F(RegistryCredentialsTest, OllamaKeyGetsToken) {
  has_key();
  site.json("/v2/token", kToken);
  EXPECT_EQ(describe(bearer(site.url("/v2/token"), "ollama")), "Bearer T");
  EXPECT_THAT(site.requests_seen(),
              ElementsAre("GET /v2/token?nonce=nonce&scope=repository%3Aa%2Fb%3Apull&service=ollama"
                          "&ts=1700000000"));
  EXPECT_THAT(site.authorizations(), ElementsAre(StartsWith(std::string(kSshPublicKey) + ":")));
}

TEST_F(RegistryCredentialsTest, NothingIsSignedForAnotherHost) {
  has_key();
  other.json("/v2/token", kToken);
  EXPECT_EQ(describe(bearer(other.url("/v2/token"), "ollama")), "Bearer T");
  EXPECT_THAT(other.requests_seen(), ElementsAre("GET /v2/token?scope=repository%3Aa%2Fb%3Apull&service=ollama"));
  EXPECT_THAT(other.authorizations(), ElementsAre(""));
}

TEST_F(RegistryCredentialsTest, LoginIsPreferredToUnrequestedKey) {
  has_key();
  has_login();
  site.json("/v2/token", kToken);
  EXPECT_EQ(describe(bearer(site.url("/v2/token"), "container_registry")), "Bearer T");
  EXPECT_EQ(describe(bearer(site.url("/v2/token"), "ollama")), "Bearer T");
  EXPECT_THAT(site.authorizations(), ElementsAre(kBasic, StartsWith(kSshPublicKey)));
}

TEST_F(RegistryCredentialsTest, UnknownKeyFallsBackToAnonymousToken) {
  has_key();
  site.put("/v2/token", [](const SeenRequest& request, Wire& wire) {
    const bool nobody = request.header("authorization").empty();
    wire.send(nobody ? answer("200 OK", kToken) : answer("401 Unauthorized", ""));
  });
  EXPECT_EQ(describe(bearer(site.url("/v2/token"), "container_registry")), "Bearer T");
  EXPECT_THAT(site.authorizations(), ElementsAre(StartsWith(kSshPublicKey), ""));
  EXPECT_EQ(describe(bearer(site.url("/v2/token"), "ollama")),
            "error: access denied: no token from " + site.url("/v2/token") + ": status 401 (tried with the key " +
                paths.ollama_key + ")");
}

TEST_F(RegistryCredentialsTest, UnreadableKeyFailsOnlyWhenNeeded) {
  paths.ollama_key = temporary.write("id_ed25519", "rubbish");
  other.json("/token", kToken);
  site.json("/v2/token", kToken);
  EXPECT_EQ(describe(bearer(other.url("/token"), "ollama")), "Bearer T");
  EXPECT_EQ(describe(bearer(site.url("/v2/token"), "ollama")),
            "error: " + paths.ollama_key + ": private key: not an OpenSSH private key file");
  paths.ollama_key = temporary.path("none");
  EXPECT_THAT(describe(bearer(site.url("/v2/token"), "ollama")), StartsWith("error: " + paths.ollama_key));
  EXPECT_THAT(site.requests_seen(), IsEmpty());
}

TEST_F(RegistryCredentialsTest, ReportsMissingCredentials) {
  site.put("/v2/token", answer("401 Unauthorized", ""));
  EXPECT_THAT(describe(bearer(site.url("/v2/token"), "ollama")),
              HasSubstr("(tried anonymously: there is no ollama key, and there is no docker config)"));
  paths.docker_config = temporary.write("config.json", "{}");
  EXPECT_THAT(describe(bearer(site.url("/v2/token"), "x")),
              HasSubstr("(tried anonymously: " + paths.docker_config + " has no login for " + site.host() + ")"));
  paths.docker_config = temporary.write("config.json", "{");
  EXPECT_THAT(describe(bearer(site.url("/v2/token"), "x")),
              StartsWith("error: " + paths.docker_config + ": invalid JSON"));
}

TEST_F(RegistryCredentialsTest, InvalidRealmIsRejected) {
  has_key();
  has_login();
  for (const std::string realm : {"", "nowhere", "ftp://127.0.0.1/token", "file:///etc/passwd"})
    EXPECT_THAT(describe(bearer(realm, "ollama")), HasSubstr(": invalid URL")) << realm;
  EXPECT_THAT(describe(bearer("http://me:x@" + site.host() + "/v2/token", "ollama")), HasSubstr(": invalid URL"));
  EXPECT_THAT(describe(bearer(site.url("/v2/to ken"), "ollama")), HasSubstr(": invalid URL"));
  EXPECT_EQ(describe(bearer("http://registry.example/token", "ollama")),
            "error: " + site.url() +
                ": token server \"http://registry.example/token\" refused: https required for another host");
  EXPECT_THAT(site.requests_seen(), IsEmpty());
}

TEST_F(RegistryCredentialsTest, PublicRegistryRealmMustBePublic) {
  has_key();
  site.json("/v2/token", kToken);
  other.json("/token", kToken);
  from_public = true;
  EXPECT_EQ(describe(bearer(other.url("/token"), "docker")),
            "error: " + other.url("/token") +
                ": refused: 127.0.0.1 is a loopback address; requests for a public registry must have "
                "public addresses; use --allow-private-urls (tried anonymously: there is no docker config)");
  EXPECT_THAT(describe(bearer(site.url("/v2/token"), "ollama")), HasSubstr("127.0.0.1 is a loopback address"));
  EXPECT_THAT(site.requests_seen(), IsEmpty());
  EXPECT_THAT(other.requests_seen(), IsEmpty());
  http = std::make_shared<http::DirectClient>(http::Options{.allow_private_urls = true});
  EXPECT_EQ(describe(bearer(other.url("/token"), "docker")), "Bearer T");
}

TEST_F(RegistryCredentialsTest, BasicChallengeIsAnsweredWithLogin) {
  EXPECT_EQ(describe("Basic realm=\"x\""), "not met, tried anonymously: there is no docker config");
  has_login();
  const auto challenged = credentials();
  EXPECT_EQ(describe(*challenged, "Basic realm=\"x\""), kBasic);
  EXPECT_EQ(describe(*challenged, "Basic realm=\"x\""), "not met, tried as \"me\" of " + paths.docker_config);
  EXPECT_THAT(site.requests_seen(), IsEmpty());
}

TEST_F(RegistryCredentialsTest, BearerIsPreferredToBasic) {
  has_login();
  site.json("/token", kToken);
  EXPECT_EQ(describe("Negotiate, Basic realm=\"x\", " + bearer(site.url("/token"), "x")), "Bearer T");
  EXPECT_EQ(describe("Negotiate"), "not met, unsupported authentication scheme; no credentials sent");
}

// A registry that is not on loopback, over http, as --insecure allows. A proxy simulates it.
TEST_F(RegistryCredentialsTest, LoginIsNotSentOverHttp) {
  HttpServer proxy([](const SeenRequest&, Wire& wire) { wire.send(answer("200 OK", kToken)); });
  ::setenv("http_proxy", proxy.url("").c_str(), 1);
  paths.docker_config = temporary.write("config.json", R"({"auths":{"registry.example":{"auth":"bWU6c2VjcmV0"}}})");
  http = std::make_shared<http::DirectClient>(http::Options{.insecure = true});
  const auto challenged = credentials_of("http://registry.example");
  EXPECT_EQ(describe(*challenged, "Basic realm=\"x\""),
            "not met, tried anonymously: the login of " + paths.docker_config + " is not sent over http");
  EXPECT_EQ(describe(*challenged, bearer("http://registry.example/token", "x")), "Bearer T");
  ::unsetenv("http_proxy");
  const auto requests = proxy.requests();
  ASSERT_EQ(requests.size(), 1U);
  EXPECT_THAT(requests[0].target, StartsWith("http://registry.example/token?"));
  EXPECT_EQ(requests[0].header("authorization"), "");
}

TEST_F(RegistryCredentialsTest, TokenIsUsedUntilItExpires) {
  site.json("/token", kToken);
  const auto challenged = credentials();
  EXPECT_EQ(challenged->authorization(), "");
  EXPECT_EQ(describe(*challenged, bearer(site.url("/token"), "x")), "Bearer T");
  now += 99;
  EXPECT_EQ(challenged->authorization(), "Bearer T");
  now += 1;
  EXPECT_EQ(challenged->authorization(), "");
  EXPECT_EQ(describe(*challenged, bearer(site.url("/token"), "x")), "Bearer T");
  EXPECT_EQ(site.requests_seen().size(), 2U);
}

TEST_F(RegistryCredentialsTest, RejectedTokenIsRenewedUnlessUnchanged) {
  std::atomic<int> count = 0;
  site.put("/token", [&](const SeenRequest&, Wire& wire) {
    wire.send(answer("200 OK", ++count == 1 ? R"({"token":"one"})" : R"({"token":"two"})"));
  });
  const auto challenged = credentials();
  const std::string challenge = bearer(site.url("/token"), "x");
  EXPECT_EQ(describe(*challenged, challenge), "Bearer one");
  EXPECT_EQ(describe(*challenged, challenge), "Bearer two");
  EXPECT_EQ(challenged->on_unauthorized(unauthorized(challenge), {0, "Bearer one"}, {}),
            true);  // sent before it was renewed: no request
  EXPECT_EQ(site.requests_seen().size(), 2U);
  EXPECT_THAT(describe(*challenged, challenge), StartsWith("not met"));
  EXPECT_EQ(site.requests_seen().size(), 3U);
}

// A request is sent with the second token although the registry sends no challenge with status 403.
TEST_F(RegistryCredentialsTest, TokenThatIsRefusedWith403IsRenewedOnceInTenSeconds) {
  std::atomic<int> tokens = 0;
  std::atomic<int> valid = 1;
  site.put("/token", [&](const SeenRequest&, Wire& wire) {
    wire.send(answer("200 OK", ++tokens == 1 ? R"({"token":"T1"})" : R"({"token":"T2"})"));
  });
  site.put("/v2/x", [&](const SeenRequest& request, Wire& wire) {
    const std::string sent = request.header("authorization");
    if (sent.empty()) return void(wire.send(test::unauthorized(bearer(site.url("/token"), "x"))));
    wire.send(sent == "Bearer T" + std::to_string(valid) ? answer("200 OK", "right") : answer("403 No", "expired"));
  });
  const auto challenged = credentials();
  const auto status = [&] {
    const http::Request request{.url = site.url("/v2/x"), .credentials = challenged};
    return download::send_request(*http, request, 100, {})->head.status;
  };
  EXPECT_EQ(status(), 200);
  valid = 2;
  EXPECT_EQ(status(), 403);  // the token is new
  EXPECT_EQ(tokens, 1);
  now += 10;
  EXPECT_EQ(status(), 200);
  EXPECT_EQ(tokens, 2);
  valid = 3;
  now += 9;
  EXPECT_EQ(status(), 403);
  EXPECT_EQ(tokens, 2);
}

// Blocks the first request for a token until the test continues it.
class ConcurrentChallengesTest : public RegistryCredentialsTest {
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
  const std::shared_ptr<Gate> gate = std::make_shared<Gate>();  // a blocked response may outlive the test
};

TEST_F(ConcurrentChallengesTest, OneThreadRequestsTokenForAll) {
  hold_the_first();
  const auto challenged = credentials();
  std::vector<std::future<std::string>> all;
  for (int i = 0; i < 8; ++i)
    all.push_back(std::async(std::launch::async, [&] {
      const auto met = challenged->on_unauthorized(unauthorized(bearer(site.url("/token"), "x")), {}, {});
      return met && *met ? challenged->authorization() : "not met";
    }));
  gate->arrived.get_future().wait();
  gate->let_go.set_value();
  for (auto& one : all) EXPECT_EQ(one.get(), "Bearer T");
  EXPECT_EQ(site.requests_seen().size(), 1U);
}

TEST_F(ConcurrentChallengesTest, StoppedThreadDoesNotWait) {
  hold_the_first();
  const auto challenged = credentials();
  auto first = std::async(std::launch::async, [&] { return describe(*challenged, bearer(site.url("/token"), "x")); });
  gate->arrived.get_future().wait();
  std::stop_source stopped;
  stopped.request_stop();
  const auto met = challenged->on_unauthorized(unauthorized(bearer(site.url("/token"), "x")), {}, stopped.get_token());
  ASSERT_FALSE(met);
  EXPECT_EQ(met.error().code, Code::network);
  gate->let_go.set_value();
  EXPECT_EQ(first.get(), "Bearer T");
}

TEST_F(ConcurrentChallengesTest, CancelledThreadDoesNotWaitForTheRequester) {
  hold_the_first();
  const auto challenged = credentials();
  const std::string challenge = bearer(site.url("/token"), "x");
  auto first = std::async(std::launch::async, [&] { return describe(*challenged, challenge); });
  gate->arrived.get_future().wait();
  {
    const CancelScope scope([] { return true; });
    const auto met = challenged->on_unauthorized(unauthorized(challenge), {}, {});
    ASSERT_FALSE(met);
    EXPECT_EQ(met.error().code, Code::network);
  }
  gate->let_go.set_value();
  EXPECT_EQ(first.get(), "Bearer T");
}

TEST_F(ConcurrentChallengesTest, AnotherThreadTakesOverWhenRequesterIsStopped) {
  hold_the_first();
  const auto challenged = credentials();
  std::stop_source stopped;
  const std::string challenge = bearer(site.url("/token"), "x");
  auto first = std::async(std::launch::async, [&] {
    return challenged->on_unauthorized(unauthorized(challenge), {}, stopped.get_token());
  });
  gate->arrived.get_future().wait();
  auto second = std::async(std::launch::async, [&] { return describe(*challenged, challenge); });
  stopped.request_stop();
  EXPECT_FALSE(first.get());
  EXPECT_EQ(second.get(), "Bearer T");
  EXPECT_EQ(site.requests_seen().size(), 2U);
  gate->let_go.set_value();
}

TEST_F(ConcurrentChallengesTest, AnotherThreadTakesOverWhenRequesterIsCancelled) {
  site.put("/token", [gate = gate](const SeenRequest&, Wire& wire) {
    const bool is_first = ++gate->count == 1;
    wire.send(is_first ? answer("503 Service Unavailable", "", {"Retry-After: 2"}) : answer("200 OK", kToken));
    if (is_first) gate->arrived.set_value();
  });
  const auto challenged = credentials();
  const std::string challenge = bearer(site.url("/token"), "x");
  std::atomic<bool> is_killed = false;
  auto first = std::async(std::launch::async, [&] {
    const CancelScope scope([&] { return is_killed.load(); });
    return challenged->on_unauthorized(unauthorized(challenge), {}, {});
  });
  gate->arrived.get_future().wait();
  auto second = std::async(std::launch::async, [&] { return describe(*challenged, challenge); });
  is_killed = true;
  EXPECT_FALSE(first.get());
  EXPECT_EQ(second.get(), "Bearer T");
}

}  // namespace
}  // namespace weightfs::test::credentials_test
