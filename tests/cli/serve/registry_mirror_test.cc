// The origin of a mirror of a registry over scripted responses.
#include "cli/serve/registry_mirror.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/scripted_client.h"

namespace weightfs::registry_origin_test {
namespace {

using namespace test;
using testing::ElementsAre;
using testing::HasSubstr;

const std::string kText = R"({"schemaVersion":2,"layers":[]})";

class RegistryOriginTest : public ::testing::Test {
 protected:
  RegistryOriginTest() {
    client = std::make_shared<ScriptedClient>([this](const http::Request&) { return page(status, body); });
    registries.store = blob_store({});
    registries.http = client;
    mirror = open();
  }

  // Another process with the same cache.
  std::shared_ptr<distribution::Mirror> open() {
    const ServedMirror flags{.endpoint = "http://127.0.0.1:1",
                             .allow = {"library/*"},
                             .ttl = std::chrono::seconds(60),
                             .kind = ServedMirror::Kind::registry};
    return open_registry_mirror(flags, registries, [this](const std::string& line) { lines.push_back(line); });
  }
  // The text, or the refusal.
  std::string find(const std::string& reference) {
    const auto found = mirror->manifest("library/tiny", reference);
    return found ? found->text : fmt::format("{} {}", found.error().status, found.error().code);
  }

  int status = 200;
  std::string body = kText;
  std::vector<std::string> lines;
  RegistryOptions registries;
  std::shared_ptr<ScriptedClient> client;
  std::shared_ptr<distribution::Mirror> mirror;
};

TEST_F(RegistryOriginTest, TagCostsOneRequestAndItsDigestNone) {
  EXPECT_EQ(find("v1"), kText);
  EXPECT_EQ(find("sha256:" + sha256(kText).hex()), kText);
  ASSERT_EQ(client->requests().size(), 1U);
  EXPECT_EQ(client->requests()[0].url, "http://127.0.0.1:1/v2/library/tiny/manifests/v1");
}

TEST_F(RegistryOriginTest, RestartedMirrorServesWhatTheOriginSaidLast) {
  EXPECT_EQ(find("v1"), kText);
  status = 503;
  mirror = open();
  EXPECT_EQ(find("v1"), kText);
  EXPECT_THAT(lines, ElementsAre(HasSubstr("to an earlier process")));
  EXPECT_EQ(find("v2"), "503 TOOMANYREQUESTS");
  status = 404;
  mirror = open();
  EXPECT_EQ(find("v1"), "404 MANIFEST_UNKNOWN");
}

TEST_F(RegistryOriginTest, OtherBytesThanThoseOfTheDigestAreNotServed) {
  EXPECT_EQ(find("sha256:" + std::string(64, 'a')), "502 UNKNOWN");
  status = 401;
  EXPECT_EQ(find("v1"), "403 DENIED");
}

TEST_F(RegistryOriginTest, NamesOutsideThePatternsAreNotPermitted) {
  EXPECT_TRUE(mirror->is_permitted("library/tiny", ""));
  EXPECT_TRUE(mirror->is_permitted("library/tiny", "127.0.0.1:1"));
  EXPECT_FALSE(mirror->is_permitted("library/tiny", "registry.example"));
  EXPECT_FALSE(mirror->is_permitted("other/tiny", ""));
  EXPECT_FALSE(mirror->is_permitted("library/../tiny", ""));
}

}  // namespace
}  // namespace weightfs::registry_origin_test
