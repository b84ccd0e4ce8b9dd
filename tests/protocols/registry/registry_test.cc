#include "protocols/registry.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <tuple>

#include "cache/direct_client.h"
#include "tests/protocols/registry_fixture.h"

namespace weightfs::test::registry_test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

class RegistryTest : public Resolving {};

TEST_F(RegistryTest, PublicModelNeedsOneRequest) {
  site.put(kManifestPath, answer("200 OK", kManifest, {"Content-Type: text/plain"}));
  paths = {temporary.path("missing key"), temporary.path("missing config")};  // not needed
  const auto found = resolved();
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(found->manifest, kManifest);
  EXPECT_EQ("sha256:" + found->digest.hex(), sha256_of(kManifest));
  EXPECT_EQ(found->from, site.url(kManifestPath));
  ASSERT_EQ(site.requests().size(), 1U);
  EXPECT_EQ(site.requests()[0].header("authorization"), "");
  EXPECT_THAT(site.requests()[0].header("accept"),
              AllOf(HasSubstr("application/vnd.docker.distribution.manifest.v2+json"),
                    HasSubstr("application/vnd.oci.image.manifest.v1+json"),
                    HasSubstr("application/vnd.docker.distribution.manifest.list.v2+json"),
                    HasSubstr("application/vnd.oci.image.index.v1+json"), EndsWith(", */*")));
}

TEST_F(RegistryTest, LayerIsDownloadedFromSameRepository) {
  site.json(kManifestPath, kManifest);
  const auto found = resolved();
  ASSERT_TRUE(found);
  BlobRef wanted{"model.gguf", sha256("layer"), 5, {"http://elsewhere.example/"}};
  const auto bytes = found->blobs->resolve(wanted);
  ASSERT_TRUE(bytes);
  EXPECT_EQ(bytes->verified->size(), std::string("verified").size());
  EXPECT_THAT(store->requested_names, ElementsAre("model.gguf"));
  ASSERT_EQ(store->used_origins.size(), 1U);
  EXPECT_EQ(store->used_origins[0].url, site.url("/v2/team/tiny/blobs/" + sha256_of("layer")));
  EXPECT_EQ(store->used_origins[0].trust, http::Trust::user);
  ASSERT_NE(store->used_origins[0].credentials, nullptr);
  EXPECT_EQ(store->used_origins[0].credentials->authorization(), "");
  EXPECT_EQ(site.requests().size(), 1U);
}

TEST_F(RegistryTest, OtherBlobsAreLeftToTheStore) {
  site.json(kManifestPath, kManifest);
  const BlobsPtr blobs = resolved().value().blobs;
  EXPECT_EQ(blobs->blob({"a", {}, {}, {}, {}})->size(), std::string("blob a").size());
  EXPECT_EQ(blobs->materialize({"ab", {}, {}, {}, {}}).value()->size(), std::string("materialized ab").size());
  EXPECT_TRUE(blobs->is_local({"here", {}, {}}));
  EXPECT_FALSE(blobs->is_local({"there", {}, {}}));
  blobs->stop();
  EXPECT_EQ(store->stops, 1);
}

// ---- responses

TEST_F(RegistryTest, MissingModelIsNotFound) {
  EXPECT_EQ(describe(), "error: no such model or tag: SITE/team/tiny:v1: status 404");
  EXPECT_EQ(code(), Code::not_found);
  EXPECT_EQ(site.requests().size(), 2U);
  site.put(kManifestPath,
           answer("404 Not Found", R"({"errors":[{"code":"MANIFEST_UNKNOWN","message":"manifest unknown"}]})"));
  EXPECT_EQ(describe(), "error: no such model or tag: SITE/team/tiny:v1: status 404, manifest unknown");
  site.put(kManifestPath, answer("404 Not Found", R"({"error":"pull\u001b[2J \u0007me"})"));
  EXPECT_EQ(describe(), "error: no such model or tag: SITE/team/tiny:v1: status 404, pull\\x1b[2J \\x07me");
}

TEST_F(RegistryTest, OtherStatusesIncludeRegistryMessage) {
  site.put(kManifestPath, answer("412 Precondition Failed", R"({"error":"needs upgrade"})"));
  EXPECT_EQ(describe(), "error: SITE/team/tiny:v1: status 412, needs upgrade");
  EXPECT_EQ(code(), Code::unsupported);
  site.put(kManifestPath, answer("400 Bad Request", R"({"errors":[{"code":"NAME_INVALID"}]})"));
  EXPECT_EQ(describe(), "error: SITE/team/tiny:v1: status 400, NAME_INVALID");
  site.put(kManifestPath, answer("400 Bad Request", R"({"error":")" + std::string(5000, 'x') + "\"}"));
  EXPECT_EQ(describe(), "error: SITE/team/tiny:v1: status 400, " + std::string(300, 'x') + "...");
}

TEST_F(RegistryTest, TemporaryFailureIsRetried) {
  std::atomic<int> count = 0;
  site.put(kManifestPath, [&](const SeenRequest&, Wire& wire) {
    if (++count == 1) return static_cast<void>(wire.send(answer("503 Service Unavailable", "")));
    if (count == 2) return wire.reset();
    wire.send(answer("200 OK", kManifest));
  });
  EXPECT_EQ(describe(), kManifest);
  EXPECT_EQ(site.requests().size(), 3U);
}

TEST_F(RegistryTest, PersistentFailureIsAnErrorOfTheNetwork) {
  http = client_with({.max_retries = 2});
  site.put(kManifestPath, answer("500 Internal Server Error", R"({"errors":[{"message":"out of disk"}]})"));
  EXPECT_EQ(describe(), "error: http://SITE/v2/team/tiny/manifests/v1: status 500, out of disk");
  EXPECT_EQ(site.requests().size(), 3U);
  http = client_with({.max_retries = 2});  // libcurl itself repeats a request if a reused connection is closed
  site.put(kManifestPath, [](const SeenRequest&, Wire& wire) { wire.reset(); });
  EXPECT_EQ(code(), Code::network);
  EXPECT_EQ(site.requests().size(), 6U);
}

// The manifest is requested once, although its request fails for want of a token.
TEST_F(RegistryTest, RequestsForATokenAreRepeatedOnce) {
  http = client_with({.max_retries = 2});
  needs_token(site.url("/token"), "registry");
  site.put("/token", answer("503 Service Unavailable", ""));
  EXPECT_THAT(describe(), HasSubstr("status 503"));
  EXPECT_EQ(code(), Code::network);
  EXPECT_EQ(site.requests().size(), 8U);  // each time one for the manifest, and three for the token
}

TEST_F(RegistryTest, LongRetryAfterIsNotWaitedFor) {
  site.put(kManifestPath, answer("429 Too Many Requests", "", {"Retry-After: 3600"}));
  EXPECT_EQ(describe(), "error: http://SITE/v2/team/tiny/manifests/v1: status 429, retry after 3600 s");
  EXPECT_EQ(code(), Code::network);
  EXPECT_EQ(site.requests().size(), 1U) << "the second one is not sent before that time";
}

TEST_F(RegistryTest, EndlessErrorBodyIsCut) {
  site.put(kManifestPath, [](const SeenRequest&, Wire& wire) {
    wire.send("HTTP/1.1 404 Not Found\r\n\r\n");
    while (wire.send(std::string(65'536, ' '))) {
    }
  });
  EXPECT_EQ(describe(), "error: no such model or tag: SITE/team/tiny:v1: status 404");
}

TEST_F(RegistryTest, InvalidManifestIsRejected) {
  for (const auto& [body, why] : std::vector<std::pair<std::string, std::string>>{
           {"<manifest>", "invalid JSON near byte 1"},
           {"", "empty where JSON is needed"},
           {"[]", "not a JSON object"},
           {"{}", "no layers, no config and no manifests"},
           {R"({"manifests":{}})", "no layers, no config and no manifests"}}) {
    site.json(kManifestPath, body);
    EXPECT_EQ(describe(), "error: SITE/team/tiny:v1: not a manifest: " + why);
    EXPECT_EQ(code(), Code::unsupported);
  }
  EXPECT_EQ(store->saves, 0);
}

// semantics 14.6
TEST_F(RegistryTest, WebPageInsteadOfAManifestIsNamed) {
  for (const char* page : {"<html><title>Sign in</title>", "\n <!DOCTYPE HTML><p>"}) {
    site.json(kManifestPath, page);
    EXPECT_EQ(describe(),
              "error: http://SITE/v2/team/tiny/manifests/v1: the server sent a web page (text/html), "
              "perhaps to log in, not an answer of its API");
    EXPECT_EQ(code(), Code::unsupported);
  }
  EXPECT_EQ(site.requests().size(), 4U);
}

TEST_F(RegistryTest, ManifestOfMoreThan4MiBIsRejected) {
  const std::string body = kManifest + std::string(4 << 20, ' ');
  site.json(kManifestPath, body.substr(0, 4 << 20));
  EXPECT_EQ(describe().size(), size_t{4} << 20);
  site.json(kManifestPath, body);
  EXPECT_EQ(describe(), "error: http://SITE/v2/team/tiny/manifests/v1: response larger than 4.0 MiB");
  EXPECT_EQ(code(), Code::corrupt);
}

TEST_F(RegistryTest, ManifestThatDiffersFromHeaderIsMismatch) {
  site.put(kManifestPath, answer("200 OK", kManifest, {"Docker-Content-Digest: " + sha256_of(kManifest)}));
  EXPECT_EQ(describe(), kManifest);
  site.put(kManifestPath, answer("200 OK", kManifest, {"Docker-Content-Digest: sha512:abc"}));
  EXPECT_EQ(describe(), kManifest);
  for (const std::string& wrong : {sha256_of("other"), std::string("sha256:zz")}) {
    site.put(kManifestPath, answer("200 OK", kManifest, {"Docker-Content-Digest: " + wrong}));
    EXPECT_EQ(describe(), "error: SITE/team/tiny:v1: the manifest's SHA-256 is " + sha256(kManifest).hex() +
                              ", the registry reports \"" + wrong + "\"");
    EXPECT_EQ(code(), Code::mismatch);
  }
}

TEST_F(RegistryTest, ManifestByDigestIsVerified) {
  const std::string digest = sha256_of(kManifest);
  site.json("/v2/team/tiny/manifests/" + digest, R"({"layers":[]})");
  EXPECT_EQ(describe(digest), "error: SITE/team/tiny@" + digest + ": the manifest's SHA-256 is " +
                                  sha256(R"({"layers":[]})").hex() + ", not " + sha256(kManifest).hex());
  EXPECT_EQ(code(digest), Code::mismatch);
  site.json("/v2/team/tiny/manifests/" + digest, kManifest);
  EXPECT_EQ(describe(digest), kManifest);
  // Nothing is requested again.
  site.json("/v2/team/tiny/manifests/" + digest, R"({"layers":[]})");
  EXPECT_EQ(describe(digest), kManifest);
}

// Ollama's registry serves manifests by digest only as blobs.
TEST_F(RegistryTest, ManifestByDigestMayBeBlob) {
  const std::string digest = sha256_of(kManifest);
  site.json("/v2/team/tiny/blobs/" + digest, kManifest);
  EXPECT_EQ(describe(digest), kManifest);
  EXPECT_THAT(site.requests_seen(),
              ElementsAre("GET /v2/team/tiny/manifests/" + digest, "GET /v2/team/tiny/blobs/" + digest));
  const std::string none = sha256_of("none");
  EXPECT_EQ(describe(none), "error: no such model or tag: SITE/team/tiny@" + none + ": status 404");
}

// ---- indexes

std::string entry(const std::string& body, const std::string& more = "") {
  return R"({"digest":")" + sha256_of(body) + "\"" + more + "}";
}

class RegistryIndexTest : public Resolving {
 protected:
  /// The manifest selected from an index of these entries.
  std::string told_index(const std::string& entries) {
    site.json(kManifestPath, R"({"schemaVersion":2,"manifests":[)" + entries + "]}");
    return describe();
  }
  std::string manifest(const std::string& name) {
    const std::string body = R"({"layers":[],"name":")" + name + "\"}";
    site.json("/v2/team/tiny/manifests/" + sha256_of(body), body);
    return body;
  }
};

TEST_F(RegistryIndexTest, FirstManifestIsUsedWithoutPlatforms) {
  const std::string a = manifest("a");
  const std::string b = manifest("b");
  EXPECT_EQ(told_index(entry(a) + "," + entry(b)), a);
  EXPECT_EQ(told_index(entry(b, R"(,"platform":{"os":"windows","architecture":"x"})") + "," + entry(a)), b);
  EXPECT_EQ(told_index("7," + entry(a)), a);
  EXPECT_THAT(store->saved.begin()->second, HasSubstr(a));
}

TEST_F(RegistryIndexTest, ManifestForThisMachineIsPreferred) {
#if defined(__x86_64__)
  const std::string mine = R"(,"platform":{"os":"linux","architecture":"amd64"})";
#elif defined(__aarch64__)
  const std::string mine = R"(,"platform":{"os":"linux","architecture":"arm64"})";
#else
  GTEST_SKIP() << "the name of this processor is not in this test";
  const std::string mine;
#endif
  const std::string a = manifest("a");
  const std::string b = manifest("b");
  EXPECT_EQ(told_index(entry(a, R"(,"platform":{"os":"linux","architecture":"mips"})") + "," + entry(b, mine)), b);
  EXPECT_EQ(told_index(entry(a) + "," + entry(b, mine) + "," + entry(a, mine)), b);
}

TEST_F(RegistryIndexTest, Amd64IsPreferredToOtherMachines) {
  const auto platform = [](const char* os, const char* architecture) {
    return fmt::format(R"(,"platform":{{"os":"{}","architecture":"{}"}})", os, architecture);
  };
  const std::string a = manifest("a");
  const std::string b = manifest("b");
  EXPECT_EQ(told_index(entry(a, platform("linux", "mips")) + "," + entry(b, platform("linux", "amd64"))), b);
  EXPECT_EQ(told_index(entry(a, platform("linux", "mips")) + "," + entry(b, platform("windows", "amd64"))), a);
}

TEST_F(RegistryIndexTest, AttestationIsLastChoice) {
  const std::string a = manifest("a");
  const std::string b = manifest("b");
  const std::string unknown = R"(,"platform":{"os":"unknown","architecture":"unknown"})";
  EXPECT_EQ(told_index(entry(a, unknown) + "," + entry(b)), b);
  EXPECT_EQ(told_index(entry(a, unknown)), a);
}

TEST_F(RegistryIndexTest, IndexesMayNestThreeDeep) {
  const std::string a = manifest("a");
  std::string inner = a;
  for (int i = 0; i < 2; ++i) {
    inner = R"({"manifests":[)" + entry(inner) + "]}";
    site.json("/v2/team/tiny/manifests/" + sha256_of(inner), inner);
  }
  EXPECT_EQ(told_index(entry(inner)), a);
  EXPECT_EQ(site.requests().size(), 4U);
  inner = R"({"manifests":[)" + entry(inner) + "]}";
  site.json("/v2/team/tiny/manifests/" + sha256_of(inner), inner);
  EXPECT_EQ(told_index(entry(inner)), "error: SITE/team/tiny:v1: indexes nested deeper than 3");
}

TEST_F(RegistryIndexTest, IndexWithoutUsableManifestIsRejected) {
  EXPECT_EQ(told_index(""), "error: SITE/team/tiny:v1: index without manifests");
  EXPECT_EQ(told_index(R"({"digest":"sha512:ab"})"),
            "error: SITE/team/tiny:v1: index entry \"sha512:ab\" is not a SHA-256 digest");
  EXPECT_EQ(told_index(R"({"digest":"../../x"})"),
            "error: SITE/team/tiny:v1: index entry \"../../x\" is not a SHA-256 digest");
}

TEST_F(RegistryIndexTest, SelectedManifestMustMatchDigest) {
  site.json("/v2/team/tiny/manifests/" + sha256_of("a"), kManifest);
  EXPECT_THAT(told_index(entry("a")), HasSubstr("the manifest's SHA-256 is " + sha256(kManifest).hex()));
}

// ---- offline

TEST_F(RegistryTest, SavedManifestIsUsedOffline) {
  site.json(kManifestPath, kManifest);
  const auto online = resolved();
  ASSERT_TRUE(online);
  EXPECT_EQ(store->saves, 1);
  http = nullptr;
  const auto offline = resolved();
  ASSERT_TRUE(offline) << offline.error().message;
  EXPECT_EQ(offline->manifest, online->manifest);
  EXPECT_EQ(offline->digest, online->digest);
  EXPECT_EQ(offline->from, online->from);
  EXPECT_EQ(store->saves, 1);
  EXPECT_EQ(site.requests().size(), 1U);
  ASSERT_TRUE(offline->blobs->resolve({"a", sha256("a"), 1}));
  EXPECT_EQ(store->used_origins.at(0).url, site.url("/v2/team/tiny/blobs/" + sha256_of("a")));
}

TEST_F(RegistryTest, UnsavedManifestIsNotAvailableOffline) {
  http = nullptr;
  EXPECT_EQ(describe(), "error: SITE/team/tiny:v1: manifest not cached; retry without --offline");
  EXPECT_EQ(code(), Code::network);
}

TEST_F(RegistryTest, DamagedSavedManifestIsIgnored) {
  site.json(kManifestPath, kManifest);
  ASSERT_TRUE(resolved());
  http = nullptr;
  std::string& saved = store->saved.begin()->second;
  for (const std::string& wrong : {saved + " ", std::string(), std::string("\n"), std::string("{}")}) {
    saved = wrong;
    EXPECT_EQ(code(), Code::network);
  }
}

// A tag can move: the saved manifest may not be the current one.
TEST_F(RegistryTest, SavedManifestIsOnlyMentionedWhenRegistryFails) {
  site.json(kManifestPath, kManifest);
  ASSERT_TRUE(resolved());
  site.put(kManifestPath, answer("429 Too Many Requests", "", {"Retry-After: 60"}));
  EXPECT_THAT(describe(), EndsWith("status 429, retry after 60 s; use --offline for the saved manifest"));
  store->saved.clear();
  EXPECT_THAT(describe(), EndsWith("status 429; no request is sent before the server's Retry-After"));
}

// ---- references

TEST_F(RegistryTest, PlainHttpIsLoopbackOnly) {
  const Reference plain{"http", "registry.example:5000", "a/b", "v1"};
  const auto refused = resolve(plain, store, http);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::forbidden);
  EXPECT_EQ(refused.error().message, "http://registry.example:5000: http:// needs --insecure");
}

TEST_F(RegistryTest, InvalidReferenceIsRejectedBeforeAnyRequest) {
  const Reference good = reference();
  std::vector<Reference> bad(10, good);
  bad[0].scheme = "ftp";
  bad[1].host = "";
  bad[2].host = "user@" + good.host;
  bad[3].host = good.host + "/x";
  bad[4].repository = "";
  bad[5].repository = "a/../b";
  bad[6].repository = "a//b";
  bad[7].repository = "a?b";
  bad[8].tag = "..";
  bad[9].tag = "sha256:abc";
  for (const Reference& one : bad) {
    const auto refused = resolve(one, store, http);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Code::unsupported);
    EXPECT_THAT(refused.error().message, StartsWith("not a valid model name: "));
  }
  EXPECT_THAT(site.requests(), IsEmpty());
}

// Offline, so that no request is sent.
TEST_F(RegistryTest, DockerIoMapsToItsRegistry) {
  http = nullptr;
  for (const auto& [host, repository, kept] : std::vector<std::tuple<std::string, std::string, std::string>>{
           {"docker.io", "tiny", "registry-1.docker.io/v2/library/tiny"},
           {"docker.io", "ai/tiny", "registry-1.docker.io/v2/ai/tiny"},
           {"index.docker.io", "tiny", "registry-1.docker.io/v2/library/tiny"},
           {"ghcr.io", "tiny", "ghcr.io/v2/tiny"}}) {
    const std::string from = "https://" + kept + "/manifests/v1";
    store->saved = {{"manifest " + from, sha256(kManifest).hex() + "\n" + kManifest}};
    const auto found = resolve({"https", host, repository, "v1"}, store, http);
    ASSERT_TRUE(found) << found.error().message;
    EXPECT_EQ(found->from, from);
  }
}

}  // namespace
}  // namespace weightfs::test::registry_test
