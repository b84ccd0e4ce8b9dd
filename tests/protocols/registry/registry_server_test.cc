// What a mirror of a registry asks of it: manifests as they are, blobs, and which names it may request.
#include "protocols/registry_server.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/protocols/registry_fixture.h"
#include "tests/support/scripted_client.h"

namespace weightfs::registry_server_test {
namespace {

using namespace test;
using testing::ElementsAre;
using testing::HasSubstr;

const std::string kHost = "127.0.0.1:1";
const std::string kIndex = R"({"schemaVersion":2,"manifests":[{"digest":"sha256:)" + std::string(64, 'a') + "\"}]}";

class RegistryServerTest : public testing::Test {
 protected:
  Result<ExactManifest> find(const std::string& tag, bool is_offline = false) {
    const Reference reference{.scheme = "http", .host = kHost, .repository = "team/tiny", .tag = tag};
    return find_manifest(reference, store, is_offline ? nullptr : client, std::chrono::seconds(10));
  }
  std::string text(const std::string& tag, bool is_offline = false) {
    const auto found = find(tag, is_offline);
    return found ? found->text : fmt::format("error {}", static_cast<int>(found.error().code));
  }
  static std::string error(Code code) { return fmt::format("error {}", static_cast<int>(code)); }

  int status = 200;
  std::string body = kIndex;
  std::shared_ptr<StoreDouble> store = std::make_shared<StoreDouble>();
  std::shared_ptr<ScriptedClient> client =
      std::make_shared<ScriptedClient>([this](const http::Request&) { return page(status, body); });
};

TEST_F(RegistryServerTest, IndexIsNotFollowed) {
  EXPECT_EQ(text("v1"), kIndex);
  EXPECT_EQ(find("v1")->digest, sha256(kIndex));
  for (const http::Request& request : client->requests())
    EXPECT_EQ(request.url, "http://127.0.0.1:1/v2/team/tiny/manifests/v1");
}

TEST_F(RegistryServerTest, ManifestByDigestIsRequestedOnceAndATagIsSaved) {
  const std::string digest = "sha256:" + sha256(kIndex).hex();
  EXPECT_EQ(text("v1", true), error(Code::network));
  EXPECT_EQ(text("v1"), kIndex);
  EXPECT_EQ(text(digest), kIndex) << "saved with the tag";
  EXPECT_EQ(text(digest, true), kIndex);
  EXPECT_EQ(text("v1", true), kIndex);
  EXPECT_EQ(client->requests().size(), 1U);
  EXPECT_EQ(text("v2", true), error(Code::network));
}

TEST_F(RegistryServerTest, OtherBytesThanThoseOfTheDigestAreRefused) {
  EXPECT_EQ(text("sha256:" + std::string(64, 'b')), error(Code::mismatch));
  EXPECT_EQ(text("sha256:" + std::string(64, 'b'), true), error(Code::network)) << "nothing was saved";
}

TEST_F(RegistryServerTest, FailureIsNotRepeatedAndMissingRepositoryHasAName) {
  status = 503;
  EXPECT_EQ(text("v1"), error(Code::network));
  EXPECT_EQ(client->requests().size(), 1U);
  status = 404;
  body = R"({"errors":[{"code":"NAME_UNKNOWN"}]})";
  const auto missing = find("v1");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, Code::not_found);
  EXPECT_EQ(missing.error().name, kNoRepository);
  body = R"({"errors":[{"code":"MANIFEST_UNKNOWN"}]})";
  EXPECT_EQ(find("v1").error().name, nullptr);
  status = 401;
  EXPECT_EQ(text("v1"), error(Code::forbidden));
}

TEST_F(RegistryServerTest, BlobIsThatOfTheRepository) {
  const Reference reference{.scheme = "http", .host = kHost, .repository = "team/tiny", .tag = "latest"};
  EXPECT_TRUE(open_blob(reference, sha256("x"), store, client));
  ASSERT_EQ(store->used_origins.size(), 1U);
  EXPECT_EQ(store->used_origins[0].url, "http://127.0.0.1:1/v2/team/tiny/blobs/" + sha256_of("x"));
  EXPECT_EQ(
      open_blob({.scheme = "http", .host = kHost, .repository = "../x", .tag = "latest"}, sha256("x"), store, client)
          .error()
          .code,
      Code::unsupported);
}

// The cache is also that of sources and repositories that clients may not read.
TEST_F(RegistryServerTest, BlobThatIsCachedForOthersIsOpenedOnlyIfTheRepositoryHasIt) {
  const Reference reference{.scheme = "http", .host = kHost, .repository = "team/tiny", .tag = "latest"};
  const auto opened = [&](const http::ClientPtr& http) {
    const auto bytes = open_blob(reference, sha256("x"), store, http);
    return bytes ? "opened" : fmt::format("error {}", static_cast<int>(bytes.error().code));
  };
  store->has_all_blobs = true;
  EXPECT_EQ(opened(nullptr), error(Code::network));
  for (const auto& [answered, expected] : {std::pair(404, Code::not_found), std::pair(403, Code::forbidden),
                                           std::pair(503, Code::network), std::pair(302, Code::unsupported)}) {
    status = answered;
    EXPECT_EQ(opened(client), error(expected)) << answered;
  }
  EXPECT_EQ(store->used_origins.size(), 0U);
  EXPECT_EQ(client->requests().size(), 4U);
  status = 206;
  for (int i = 0; i < 3; ++i) EXPECT_EQ(opened(client), "opened");
  EXPECT_EQ(opened(nullptr), "opened");
  EXPECT_EQ(client->requests().size(), 5U);
  EXPECT_EQ(client->requests().back().url, "http://127.0.0.1:1/v2/team/tiny/blobs/" + sha256_of("x"));
}

TEST(RegistryServer, ServerIsAHostOrItsUrl) {
  EXPECT_EQ(registry::parse_server("Registry.example"), "https://registry.example");
  EXPECT_EQ(registry::parse_server("https://registry.example:5000/"), "https://registry.example:5000");
  EXPECT_EQ(registry::parse_server("docker.io"), "https://registry-1.docker.io");
  EXPECT_EQ(registry::parse_server("127.0.0.1:5000"), "http://127.0.0.1:5000");
  EXPECT_EQ(registry::parse_server("http://registry.example"), "http://registry.example");
  for (const char* const wrong : {"", "/", "registry", "ftp://registry.example", "https://me:x@registry.example",
                                  "registry.example/v2", "registry.example?x", "https://"})
    EXPECT_FALSE(registry::parse_server(wrong)) << wrong;
  EXPECT_TRUE(registry::is_namespace_of("docker.io", "https://registry-1.docker.io"));
  EXPECT_TRUE(registry::is_namespace_of("Registry.example", "https://registry.example"));
  EXPECT_FALSE(registry::is_namespace_of("docker.io", "https://registry.example"));
}

TEST(RegistryServer, OnlyNamesOfRepositoriesArePermitted) {
  const std::vector<std::string> all = {"*"};
  for (const char* const name : {"a", "library/tiny", "a/b/c", "a.b", "a_b", "a__b", "a---b", "0/1"})
    EXPECT_TRUE(registry::is_permitted_repository(name, all)) << name;
  for (const char* const name : {"",    "/",  "a/", "/a",    "a//b", "A",     "a..b", ".",   "..",  "../a", "a/../b",
                                 "a/.", "-a", "a-", "a___b", "a._b", "a%2fb", "a b",  "a?b", "a:b", "a\\b"})
    EXPECT_FALSE(registry::is_permitted_repository(name, all)) << name;
  EXPECT_FALSE(registry::is_permitted_repository(std::string(256, 'a'), all));
  EXPECT_TRUE(registry::is_permitted_repository("library/tiny", {"x", "library/*"}));
  EXPECT_FALSE(registry::is_permitted_repository("library2/tiny", {"library/*"}));
  EXPECT_FALSE(registry::is_permitted_repository("library/tiny", {}));
}

TEST(RegistryServer, RepositoryIsFoundInUrlsOfManifestsAndBlobs) {
  const std::string below = "https://registry.example/v2/";
  EXPECT_EQ(registry::repository_in(below + "a/b/manifests/v1", below), "a/b");
  EXPECT_EQ(registry::repository_in(below + "a/blobs/sha256:00", below), "a");
  EXPECT_EQ(registry::repository_in(below + "a/manifests/blobs/v1", below), "a/manifests");
  for (const char* const other : {"", "a/b", "a/tags/list", "a/manifests/", "manifests/v1", "a/manifests/v1?x=1",
                                  "a/blobs/uploads/1", "_catalog"})
    EXPECT_EQ(registry::repository_in(below + other, below), "") << other;
  EXPECT_EQ(registry::repository_in("https://other.example/v2/a/manifests/v1", below), "");
}

}  // namespace
}  // namespace weightfs::registry_server_test
