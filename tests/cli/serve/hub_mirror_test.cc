// The origin of a mirror over scripted responses of a Hub, and the options of `weightfs serve --mirror hf=URL`.
#include "cli/serve/hub_mirror.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/serve/http_options.h"
#include "tests/support/scripted_client.h"

namespace weightfs::hub_mirror_test {
namespace {

using namespace test;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

const std::string kCommit(40, 'c');
const std::string kHub = "http://127.0.0.1:1";
const std::string kConfig = "{}";

std::string revision_of(const std::string& id) { return fmt::format(R"({{"id":"{}","sha":"{}"}})", id, kCommit); }

std::string entry(const std::string& path) {
  return fmt::format(R"({{"type":"file","path":"{}","size":2,"oid":"{}"}})", path, git_blob_id(kConfig).hex());
}

class HubMirrorTest : public ::testing::Test {
 protected:
  HubMirrorTest() {
    client = std::make_shared<ScriptedClient>([this](const http::Request& request) { return answer(request.url); });
    RegistryOptions registries;
    registries.store = blob_store({});
    registries.http = client;
    const ServedMirror flags{.endpoint = kHub, .allow = {"org/*"}, .ttl = std::chrono::seconds(60)};
    mirror = open_hub_mirror(flags, registries, [](const std::string&) {}).value();
  }

  Result<download::Response> answer(const std::string& url) {
    if (url.find("/revision/") != url.npos) return page(status, status == 200 ? revision_of(shown) : "");
    if (url.find("/tree/") != url.npos) return page(200, "[" + list + "]");
    return page(200, content);
  }

  std::vector<std::string> urls() const {
    std::vector<std::string> out;
    for (const http::Request& request : client->requests()) out.push_back(request.url.substr(kHub.size()));
    return out;
  }

  int status = 200;
  std::string shown = "org/demo";
  std::string list = entry("config.json");
  std::string content = kConfig;
  std::shared_ptr<ScriptedClient> client;
  std::shared_ptr<hub::Mirror> mirror;
};

TEST_F(HubMirrorTest, RepositoryCostsTwoRequestsAndAFileOne) {
  const auto found = mirror->find("org", "demo", "main");
  ASSERT_TRUE(found) << found.error().message;
  const hub::Repository& repository = **found;
  EXPECT_EQ(repository.commit, kCommit);
  const SourcePtr bytes = mirror->open(repository, repository.files.at(0));
  EXPECT_EQ(urls().size(), 2U) << "a file is requested when it is read";
  for (int i = 0; i < 2; ++i) EXPECT_EQ(read_text(*bytes, 0, 2).value(), kConfig);
  EXPECT_TRUE(mirror->find("org", "demo", kCommit));
  EXPECT_THAT(urls(), ElementsAre("/api/models/org/demo/revision/main",
                                  "/api/models/org/demo/tree/" + kCommit + "?recursive=true&expand=false",
                                  "/org/demo/resolve/" + kCommit + "/config.json"));
}

TEST_F(HubMirrorTest, WrongBytesAreNotServed) {
  content = "[]";
  const auto found = mirror->find("org", "demo", "main");
  ASSERT_TRUE(found);
  const auto read = read_text(*mirror->open(**found, (*found)->files.at(0)), 0, 2);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, Code::mismatch);
  content = kConfig;
  EXPECT_TRUE(read_text(*mirror->open(**found, (*found)->files.at(0)), 0, 2)) << "the origin was repaired";
}

TEST_F(HubMirrorTest, RenamedRepositoryKeepsTheNameThatIsPermitted) {
  shown = "new/name";
  const auto found = mirror->find("org", "demo", "main");
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ((*found)->id, "org/demo");
  for (const std::string& url : urls()) EXPECT_THAT(url, HasSubstr("org/demo"));
}

TEST_F(HubMirrorTest, PathsThatAreNoneAreLeftOut) {
  list = entry("../x") + "," + entry("b") + "," + entry("a//b") + "," + entry("/etc/passwd") + "," + entry("a") + "," +
         entry("b");
  const auto found = mirror->find("org", "demo", "main");
  ASSERT_TRUE(found);
  std::vector<std::string> paths;
  for (const hub::RepositoryFile& file : (*found)->files) paths.push_back(file.path);
  EXPECT_THAT(paths, ElementsAre("a", "b"));
}

TEST_F(HubMirrorTest, OriginIsAskedOnceWhileItFails) {
  for (const auto& [sent, expected] :
       std::vector<std::pair<int, std::string>>{{503, "503 "}, {404, "404 RepoNotFound"}}) {
    status = sent;
    const std::string name = fmt::format("m{}", sent);
    const size_t before = urls().size();
    for (int i = 0; i < 3; ++i) {
      const auto found = mirror->find("org", name, "main");
      ASSERT_FALSE(found);
      EXPECT_EQ(fmt::format("{} {}", found.error().status, found.error().code), expected);
    }
    EXPECT_EQ(urls().size(), before + 1);
  }
}

TEST(ServedMirrorOptions, MirrorNeedsPatterns) {
  const auto error = [](const std::string& words, const std::vector<std::string>& sources = {}) -> std::string {
    HttpOptions options;
    if (const auto parsed = parse_http_options(options, words); !parsed) return parsed.error().message;
    const auto checked = check_served(sources, options);
    return checked ? "" : checked.error().message;
  };
  EXPECT_EQ(error("mirror=hf=https://huggingface.co/,allow=Qwen/*,allow=org/x,mirror_ttl=5"), "");
  EXPECT_EQ(error("mirror=https://mirror.example", {"m.gguf"}), "");
  EXPECT_THAT(error("mirror=hf=https://huggingface.co"), HasSubstr("use --allow"));
  EXPECT_THAT(error("allow=*", {"m.gguf"}), HasSubstr("use --mirror hf=URL"));
  EXPECT_THAT(error(""), HasSubstr("missing SOURCE"));
  EXPECT_EQ(error("mirror=oci=registry.example,allow=library/*"), "");
  EXPECT_EQ(error("mirror=oci=http://registry.example,allow=*,insecure"), "");
  EXPECT_THAT(error("mirror=oci=registry.example"), HasSubstr("use --allow"));
  EXPECT_THAT(error("mirror=oci=registry.example,mirror=hf=https://b.example"), HasSubstr("one Hub, registry or"));
  EXPECT_THAT(error("mirror=oci=http://registry.example,allow=*"), HasSubstr("--insecure"));
  EXPECT_THAT(error("mirror=oci=registry,allow=*"), HasSubstr("not the name of a registry"));
  EXPECT_THAT(error("mirror=oci=https://me:secret@registry.example,allow=*"), HasSubstr("not the name of a registry"));
  EXPECT_EQ(error("mirror=s3=https://store.example/,allow=models/*"), "");
  EXPECT_EQ(error("mirror=s3=http://127.0.0.1:9000,allow=*"), "");
  EXPECT_THAT(error("mirror=s3=https://store.example"), HasSubstr("use --allow 'BUCKET/*'"));
  EXPECT_THAT(error("mirror=s3=http://store.example/s3,allow=*"), HasSubstr("--insecure"));
  for (const char* const words :
       {"mirror=s3=,allow=*", "mirror=s3=store.example,allow=*", "mirror=s3=https://me:x@store.example,allow=*",
        "mirror=s3=https://s.example?x,allow=*"})
    EXPECT_THAT(error(words), HasSubstr("the URL of an object store expected")) << words;
  EXPECT_THAT(error("mirror=hf=https://a.example,mirror=hf=https://b.example"), HasSubstr("one Hub"));
  EXPECT_THAT(error("mirror=hf=http://hub.example,allow=*"), HasSubstr("--insecure"));
  EXPECT_THAT(error("mirror=hf=/,allow=*"), HasSubstr("the URL of a Hub expected"));
  EXPECT_THAT(error("mirror=hf=huggingface.co,allow=*"), HasSubstr("the URL of a Hub expected"));
  EXPECT_THAT(error("mirror=hf=ftp://hub.example,allow=*"), HasSubstr("not the URL of a server"));
  EXPECT_THAT(error("mirror=hf=https://me:secret@hub.example,allow=*"), HasSubstr("not the URL of a server"));
  for (const char* const words : {"mirror=hf=https://me:secret@hub.example", "mirror=oci=https://me:secret@hub.example",
                                  "mirror=s3=https://me:secret@hub.example"})
    EXPECT_THAT(error(words), Not(HasSubstr("secret"))) << words;
  EXPECT_THAT(error("mirror=hf=https://hub.example,allow=*,mirror_ttl=0"), HasSubstr("seconds"));
}

}  // namespace
}  // namespace weightfs::hub_mirror_test
