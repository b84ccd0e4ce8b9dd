// The origin of a mirror of an object store over scripted responses.
#include "cli/serve/object_mirror.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/scripted_client.h"

namespace weightfs::object_origin_test {
namespace {

using namespace test;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const std::string kBytes = "the bytes of an object";
const std::string kListing =
    R"(<ListBucketResult><IsTruncated>false</IsTruncated><Contents><Key>llama/b</Key><Size>2</Size><ETag>"b"</ETag>)"
    R"(</Contents><Contents><Key>llama/a</Key><Size>1</Size><ETag>"a"</ETag></Contents><Contents><Key>llama/</Key>)"
    R"(<Size>0</Size></Contents></ListBucketResult>)";

class ObjectOriginTest : public ::testing::Test {
 protected:
  ObjectOriginTest() {
    client = std::make_shared<ScriptedClient>([this](const http::Request& request) { return respond(request.url); }, 0);
    registries.store = blob_store({});
    registries.http = client;
    registries.clouds.s3 = std::make_shared<const s3::Settings>(
        s3::Settings{.endpoint = "https://other.example", .addressing = s3::Addressing::host});
    mirror = open();
  }

  Result<download::Response> respond(const std::string& url) const {
    if (status != 0) return page(status, "<Error><Code>Failure</Code></Error>");
    if (url.find("?") != url.npos) return page(200, kListing);
    download::Response found = page(206, kBytes);
    found.head.headers = {{"content-range", fmt::format("bytes 0-{}/{}", kBytes.size() - 1, kBytes.size())},
                          {"content-length", std::to_string(kBytes.size())},
                          {"etag", "\"tag\""},
                          {"last-modified", "Tue, 14 Nov 2023 22:13:20 GMT"}};
    return found;
  }

  // Another process with the same cache.
  std::shared_ptr<objects::Mirror> open() {
    const ServedMirror flags{.endpoint = "http://127.0.0.1:1/s3",
                             .allow = {"models/llama/*"},
                             .ttl = std::chrono::seconds(60),
                             .kind = ServedMirror::Kind::objects};
    return open_object_mirror(flags, registries, [this](const std::string& line) { lines.push_back(line); });
  }
  // The ETag and the time, or the refusal.
  std::string find(const std::string& key) {
    const auto found = mirror->object("models", key);
    if (!found) return fmt::format("{} {}", found.error().status, found.error().code);
    return fmt::format("{} {}", found->object.quoted_tag(), found->object.modified / 1'000'000'000);
  }
  std::vector<std::string> list(const std::string& prefix) {
    std::vector<std::string> out;
    const auto listed = mirror->list("models", prefix);
    if (!listed) return {fmt::format("{} {}", listed.error().status, listed.error().code)};
    for (const objects::MirroredObject& each : **listed) out.push_back(each.key + " " + each.etag);
    return out;
  }
  std::vector<std::string> urls() const {
    std::vector<std::string> out;
    for (const http::Request& request : client->requests()) out.push_back(request.url);
    return out;
  }

  int status = 0;  // of each response; 0: those of an object and a list
  std::vector<std::string> lines;
  RegistryOptions registries;
  std::shared_ptr<ScriptedClient> client;
  std::shared_ptr<objects::Mirror> mirror;
};

TEST_F(ObjectOriginTest, ObjectCostsOneRequestWithItsFirstBytes) {
  EXPECT_EQ(find("llama/a b"), "\"tag\" 1700000000");
  const auto found = mirror->object("models", "llama/a b");
  ASSERT_TRUE(found);
  std::string bytes(kBytes.size(), '\0');
  EXPECT_EQ(found->bytes->read(0, std::as_writable_bytes(std::span(bytes))).value_or(0), bytes.size());
  EXPECT_EQ(bytes, kBytes);
  EXPECT_THAT(urls(), ElementsAre("http://127.0.0.1:1/s3/models/llama/a%20b")) << "in path style, at the endpoint";
}

TEST_F(ObjectOriginTest, ListHasThePermittedObjects) {
  EXPECT_THAT(list("llama/"), ElementsAre("llama/a \"a\"", "llama/b \"b\"")) << "llama/ cannot be read";
  ASSERT_EQ(urls().size(), 1U);
  EXPECT_THAT(urls()[0], HasSubstr("/s3/models/?encoding-type=url&list-type=2&max-keys=1000&prefix=llama%2F"));
}

TEST_F(ObjectOriginTest, OtherNamesAreNotRequested) {
  for (const char* const key : {"llama", "other/a", "llama/../other", "llama//a", "llama/", "llama/."})
    EXPECT_EQ(find(key), "404 NoSuchKey") << key;
  for (const char* const prefix : {"", "lla", "llama", "other/", "llama/../"})
    EXPECT_THAT(list(prefix), ElementsAre("403 AccessDenied")) << prefix;
  EXPECT_TRUE(mirror->is_permitted("models"));
  for (const char* const bucket : {"other", "..", "", "models/llama"}) EXPECT_FALSE(mirror->is_permitted(bucket));
  EXPECT_THAT(urls(), IsEmpty());
}

TEST_F(ObjectOriginTest, RestartedMirrorServesWhatTheOriginSaidLast) {
  EXPECT_EQ(find("llama/a"), "\"tag\" 1700000000");
  const auto before = list("llama/");
  status = 503;
  mirror = open();
  EXPECT_EQ(find("llama/a"), "\"tag\" 1700000000");
  EXPECT_EQ(list("llama/"), before);
  EXPECT_THAT(lines, ElementsAre(HasSubstr("to an earlier process"), HasSubstr("to an earlier process")));
  EXPECT_EQ(find("llama/new"), "503 SlowDown");
  EXPECT_THAT(list("llama/new"), ElementsAre("503 SlowDown"));
  status = 404;
  mirror = open();
  EXPECT_EQ(find("llama/a"), "404 NoSuchKey");
  EXPECT_THAT(list("llama/"), ElementsAre("404 NoSuchBucket"));
  status = 403;
  mirror = open();
  EXPECT_EQ(find("llama/new"), "403 AccessDenied");
}

TEST_F(ObjectOriginTest, OfflineMirrorHasWhatIsKnown) {
  EXPECT_EQ(find("llama/a"), "\"tag\" 1700000000");
  const auto before = list("llama/");
  registries.http = nullptr;
  mirror = open();
  EXPECT_EQ(find("llama/a"), "\"tag\" 1700000000");
  EXPECT_EQ(list("llama/"), before);
  EXPECT_EQ(find("llama/new"), "503 SlowDown");
}

}  // namespace
}  // namespace weightfs::object_origin_test
