// Access to a registry with and without credentials.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>

#include "base/text.h"
#include "base/values/base64.h"
#include "tests/protocols/registry_fixture.h"
#include "tests/support/ssh_key.h"

namespace weightfs::test::access_test {
namespace {

using testing::ElementsAre;

constexpr const char* kToken = R"({"token":"T"})";
constexpr const char* kBasic = "Basic bWU6c2VjcmV0";

class RegistryAccessTest : public Resolving {
 protected:
  /// Resolves a model of `other` through `site`, its mirror, whose headers in hosts.toml have a secret.
  bool resolves_through_mirror() {
    const Mirror mirror{.url = site.url(), .has_tags = true, .headers = {"X-Secret: s3cret"}};
    return resolve({"http", other.host(), "team/tiny", "v1"}, store, http, ModelIndex::selected, {mirror}).has_value();
  }
  static std::vector<std::string> secrets_sent_to(const Site& server) {
    std::vector<std::string> out;
    for (const SeenRequest& request : server.requests()) out.push_back(request.header("x-secret"));
    return out;
  }
};

TEST_F(RegistryAccessTest, AnonymousTokenIsUsed) {
  needs_token(other.url("/token"), "docker");
  other.json("/token", kToken);
  EXPECT_EQ(describe(), kManifest);
  EXPECT_THAT(site.authorizations(), ElementsAre("", "Bearer T"));
  EXPECT_THAT(other.authorizations(), ElementsAre(""));
  EXPECT_THAT(other.requests_seen(), ElementsAre("GET /token?scope=repository%3Ateam%2Ftiny%3Apull&service=docker"));
}

TEST_F(RegistryAccessTest, DockerLoginGetsToken) {
  has_login();
  needs_token(other.url("/token"), "docker");
  other.put("/token", guarded(kBasic, "Basic realm=\"x\"", answer("200 OK", kToken)));
  EXPECT_EQ(describe(), kManifest);
  EXPECT_THAT(site.authorizations(), ElementsAre("", "Bearer T"));
  EXPECT_THAT(other.authorizations(), ElementsAre(kBasic));
}

bool is_signed_by_the_test_key(const std::string& authorization, const std::string& text) {
  const std::string open = from_base64(kSshPublicKey).value().substr(19);
  const size_t colon = authorization.find(':');
  const auto signature = from_base64(authorization.substr(std::min(colon + 1, authorization.size())));
  if (authorization.substr(0, colon) != kSshPublicKey || !signature) return false;
  const auto bytes = [](const std::string& s) { return reinterpret_cast<const unsigned char*>(s.data()); };
  const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key(
      EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, nullptr, bytes(open), open.size()), &EVP_PKEY_free);
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> check(EVP_MD_CTX_new(), &EVP_MD_CTX_free);
  return EVP_DigestVerifyInit(check.get(), nullptr, nullptr, nullptr, key.get()) == 1 &&
         EVP_DigestVerify(check.get(), bytes(*signature), signature->size(), bytes(text), text.size()) == 1;
}

TEST_F(RegistryAccessTest, OllamaKeyGetsToken) {
  paths.ollama_key = temporary.write("id_ed25519", kSshKey);
  needs_token(site.url("/v2/token"), "ollama");
  site.json("/v2/token", kToken);
  EXPECT_EQ(describe(), kManifest);
  const auto requests = site.requests();
  ASSERT_EQ(requests.size(), 3U);
  EXPECT_THAT(requests[1].target,
              testing::MatchesRegex("/v2/token\\?nonce=[A-Za-z0-9_-]{22}&scope=repository%3Ateam%2Ftiny%3Apull"
                                    "&service=ollama&ts=[0-9]{10}"));
  const std::string text = "GET," + site.url(requests[1].target) +
                           ",ZTNiMGM0NDI5OGZjMWMxNDlhZmJmNGM4OTk2ZmI5MjQyN2FlNDFlNDY0OWI5MzRjYTQ5NTk5MWI3ODUyYjg1NQ==";
  EXPECT_TRUE(is_signed_by_the_test_key(requests[1].header("authorization"), text));
  EXPECT_FALSE(is_signed_by_the_test_key(requests[1].header("authorization"), text + "x"));
  EXPECT_EQ(requests[2].header("authorization"), "Bearer T");
}

TEST_F(RegistryAccessTest, TokenIsNotSentToRedirectTarget) {
  needs_token(site.url("/token"), "docker");
  site.json("/token", kToken);
  site.put(kManifestPath,
           guarded("Bearer T", challenge, answer("307 Temporary Redirect", "", {"Location: " + other.url("/there")})));
  other.json("/there", kManifest);
  EXPECT_EQ(describe(), kManifest);
  EXPECT_THAT(other.authorizations(), ElementsAre(""));
}

TEST_F(RegistryAccessTest, HeadersOfMirrorAreSentToMirror) {
  site.put(kManifestPath, answer("307 Temporary Redirect", "", {"Location: /elsewhere"}));
  site.json("/elsewhere", kManifest);
  EXPECT_TRUE(resolves_through_mirror());
  EXPECT_THAT(secrets_sent_to(site), ElementsAre("s3cret", "s3cret"));
}

TEST_F(RegistryAccessTest, HeadersOfMirrorAreNotSentToRedirectTarget) {
  site.put(kManifestPath, answer("307 Temporary Redirect", "", {"Location: " + other.url("/there")}));
  other.json("/there", kManifest);
  EXPECT_TRUE(resolves_through_mirror());
  EXPECT_THAT(secrets_sent_to(site), ElementsAre("s3cret"));
  EXPECT_THAT(secrets_sent_to(other), ElementsAre(""));
}

TEST_F(RegistryAccessTest, HeadersOfMirrorAreNotSentToTokenServer) {
  needs_token(other.url("/token"), "docker");
  other.json("/token", kToken);
  EXPECT_TRUE(resolves_through_mirror());
  EXPECT_THAT(secrets_sent_to(site), ElementsAre("s3cret", "s3cret"));
  EXPECT_THAT(secrets_sent_to(other), ElementsAre(""));
}

TEST_F(RegistryAccessTest, HeadersOfMirrorAreNotSentToRegistry) {
  other.json(kManifestPath, kManifest);
  EXPECT_TRUE(resolves_through_mirror());
  EXPECT_THAT(secrets_sent_to(site), ElementsAre("s3cret"));
  EXPECT_THAT(secrets_sent_to(other), ElementsAre(""));
}

TEST_F(RegistryAccessTest, LoginIsNotSentToRedirectOfTokenServer) {
  has_login();
  needs_token(site.url("/token"), "docker");
  site.put("/token", answer("302 Found", "", {"Location: " + other.url("/token")}));
  other.json("/token", kToken);
  EXPECT_EQ(describe(), kManifest);
  EXPECT_THAT(other.authorizations(), ElementsAre(""));
}

TEST_F(RegistryAccessTest, BasicChallengeIsAnsweredWithLogin) {
  has_login();
  site.put(kManifestPath, guarded(kBasic, "Basic realm=\"x\"", answer("200 OK", kManifest)));
  EXPECT_EQ(describe(), kManifest);
  EXPECT_THAT(site.authorizations(), ElementsAre("", kBasic));
}

TEST_F(RegistryAccessTest, TokenIsReusedAndRenewedWhenRejected) {
  std::atomic<int> tokens = 0;
  std::atomic<int> valid = 1;
  site.put("/token", [&](const SeenRequest&, Wire& wire) {
    wire.send(answer("200 OK", fmt::format("{}T{}\"}}", R"({"token":")", ++tokens)));
  });
  const std::string needed = "Bearer realm=\"" + site.url("/token") + "\"";
  const std::string index = fmt::format("{}{}\"}}]}}", R"({"manifests":[{"digest":")", sha256_of(kManifest));
  const auto page = [&](const std::string& body) {
    return [&, body](const SeenRequest& request, Wire& wire) {
      const bool known = request.header("authorization") == fmt::format("Bearer T{}", valid.load());
      wire.send(known ? answer("200 OK", body) : unauthorized(needed));
    };
  };
  const auto first = page(index);
  site.put(kManifestPath, [&](const SeenRequest& request, Wire& wire) {
    first(request, wire);
    if (!request.header("authorization").empty()) valid = 2;  // the first token has expired
  });
  site.put("/v2/team/tiny/manifests/" + sha256_of(kManifest), page(kManifest));
  EXPECT_EQ(describe(), kManifest);
  EXPECT_THAT(site.authorizations(), ElementsAre("", "", "Bearer T1", "Bearer T1", "", "Bearer T2"));
}

TEST_F(RegistryAccessTest, BlobRequestUsesSameCredentials) {
  needs_token(site.url("/token"), "docker");
  site.json("/token", kToken);
  const auto found = resolved();
  ASSERT_TRUE(found);
  ASSERT_TRUE(found->blobs->resolve({"a", sha256("a"), 1}));
  EXPECT_EQ(store->used_origins.at(0).credentials->authorization(), "Bearer T");
}

TEST_F(RegistryAccessTest, DeniedAccessNamesCredentials) {
  site.put(kManifestPath, answer("403 Forbidden", R"({"errors":[{"code":"DENIED","message":"not yours"}]})"));
  EXPECT_EQ(describe(), "error: access denied to SITE/team/tiny:v1: status 403, not yours (tried anonymously)");
  EXPECT_EQ(code(), Code::forbidden);

  site.put(kManifestPath, unauthorized("Basic realm=\"x\""));
  EXPECT_EQ(describe(),
            "error: access denied to SITE/team/tiny:v1: status 401 (tried anonymously: there is no docker config)");

  has_login();
  EXPECT_EQ(describe(),
            "error: access denied to SITE/team/tiny:v1: status 401 (tried as \"me\" of " + paths.docker_config + ")");

  needs_token(site.url("/token"), "docker");
  site.put("/token", answer("401 Unauthorized", R"({"details":"incorrect username or password"})"));
  EXPECT_EQ(describe(),
            "error: access denied: no token from http://SITE/token: status 401, incorrect username or password (tried "
            "as \"me\" of " +
                paths.docker_config + ")");
  EXPECT_EQ(code(), Code::forbidden);
  EXPECT_EQ(store->saves, 0);
}

class CredentialPathsTest : public testing::Test {
 protected:
  CredentialPathsTest() {
    ::setenv("HOME", temporary.path("home").c_str(), 1);
    ::unsetenv("DOCKER_CONFIG");
  }
  ~CredentialPathsTest() override {
    for (const char* const name : {"REGISTRY_AUTH_FILE", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME"}) ::unsetenv(name);
    if (home.empty())
      ::unsetenv("HOME");
    else
      ::setenv("HOME", home.c_str(), 1);
    ::unsetenv("DOCKER_CONFIG");
  }
  TemporaryDirectory temporary;
  std::string home = std::getenv("HOME") == nullptr ? "" : std::getenv("HOME");
};

TEST_F(CredentialPathsTest, AreSetOnlyForExistingFiles) {
  EXPECT_EQ(CredentialPaths::of_user().ollama_key, "");
  EXPECT_EQ(CredentialPaths::of_user().docker_config, "");
  const std::string key = temporary.write("home/.ollama/id_ed25519", "");
  const std::string config = temporary.write("home/.docker/config.json", "");
  EXPECT_EQ(CredentialPaths::of_user().ollama_key, key);
  EXPECT_EQ(CredentialPaths::of_user().docker_config, config);
  ::unsetenv("HOME");
  EXPECT_EQ(CredentialPaths::of_user().ollama_key, "");
}

TEST_F(CredentialPathsTest, DockerConfigDirectoryIsRespected) {
  temporary.write("home/.docker/config.json", "");
  ::setenv("DOCKER_CONFIG", temporary.path("docker").c_str(), 1);
  EXPECT_EQ(CredentialPaths::of_user().docker_config, "");
  const std::string config = temporary.write("docker/config.json", "");
  EXPECT_EQ(CredentialPaths::of_user().docker_config, config);
}

// containers-auth.json(5)
TEST_F(CredentialPathsTest, FilesOfPodmanAreSearchedFirst) {
  const std::string config = temporary.path("home/.config/containers/auth.json");
  ::unsetenv("XDG_CONFIG_HOME");
  ::unsetenv("REGISTRY_AUTH_FILE");
  ::unsetenv("XDG_RUNTIME_DIR");
  EXPECT_THAT(CredentialPaths::of_user().auth_files,
              ElementsAre(fmt::format("/run/containers/{}/auth.json", ::getuid()), config));
  ::setenv("XDG_RUNTIME_DIR", "/run/user/7", 1);
  EXPECT_THAT(CredentialPaths::of_user().auth_files, ElementsAre("/run/user/7/containers/auth.json", config));
  ::setenv("REGISTRY_AUTH_FILE", "/etc/login.json", 1);
  ::setenv("XDG_CONFIG_HOME", "/config", 1);
  EXPECT_THAT(CredentialPaths::of_user().auth_files, ElementsAre("/etc/login.json", "/config/containers/auth.json"));
}

}  // namespace
}  // namespace weightfs::test::access_test
