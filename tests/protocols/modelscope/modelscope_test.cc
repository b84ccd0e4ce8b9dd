// Names, servers and lists of ModelScope. tests/mount/test_modelscope.py mounts repositories from a double of it.
#include "protocols/modelscope.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/support/temporary.h"

namespace weightfs::test::modelscope_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string describe(const std::string& text) {
  const auto name = modelscope::parse_name(text);
  return name ? name->text() : "error: " + name.error().message;
}

TEST(ModelScopeName, HasRevisionAndPath) {
  EXPECT_EQ(describe("//Qwen/Qwen2.5-0.5B"), "ms://Qwen/Qwen2.5-0.5B@master");
  EXPECT_EQ(describe("//org/name/"), "ms://org/name@master");
  EXPECT_EQ(describe("//org/name@v1.0"), "ms://org/name@v1.0");
  EXPECT_EQ(describe("//org/name@a%2Fb/dir/m.gguf"), "ms://org/name@a/b/dir/m.gguf");
  EXPECT_EQ(describe("//org/name/dir/m@2.gguf"), "ms://org/name@master/dir/m@2.gguf");
}

TEST(ModelScopeName, InvalidIsRefused) {
  for (const char* const text :
       {"", "org/name", "//org", "//org/", "//../name", "//org/..", "//o rg/name", "//@v/name"})
    EXPECT_THAT(describe(text), HasSubstr("ORG/NAME expected")) << text;
  for (const char* const text :
       {"//org/name@", "//org/name@..", "//org/name@a%2F..%2Fb", "//org/name@%zz", "//org/name@a b"})
    EXPECT_THAT(describe(text), HasSubstr(": not a valid revision")) << text;
  for (const char* const text : {"//org/name/../x", "//org/name//x", "//org/name/./x"})
    EXPECT_THAT(describe(text), HasSubstr(": not a path in the repository")) << text;
}

class ModelScopeServer : public testing::Test {
 protected:
  ModelScopeServer() { forget(); }
  ~ModelScopeServer() override { forget(); }

  static void forget() {
    for (const char* const name :
         {"MODELSCOPE_ENDPOINT", "MODELSCOPE_DOMAIN", "MODELSCOPE_API_TOKEN", "MODELSCOPE_HOME"})
      ::unsetenv(name);
  }
  static std::string server(bool is_insecure = false) {
    const auto hub = modelscope::hub_of(nullptr, nullptr, is_insecure);
    return hub ? hub->endpoint : "error: " + hub.error().message;
  }
  static std::string token_for(const std::string& endpoint) {
    const auto found = modelscope::credentials_for(endpoint);
    if (!found) return "error: " + found.error().message;
    std::string text = (*found)->authorization();
    for (const std::string& header : (*found)->headers("GET", endpoint)) text += ", " + header;
    return text;
  }
  static std::string origin_for(const std::string& endpoint) {
    const auto found = modelscope::credentials_for(endpoint);
    return found ? (*found)->key_origin().from : "error: " + found.error().message;
  }

  TemporaryDirectory temporary;
};

TEST_F(ModelScopeServer, IsThatOfTheEnvironment) {
  EXPECT_EQ(server(), "https://modelscope.cn");
  ::setenv("MODELSCOPE_DOMAIN", "www.modelscope.ai", 1);
  EXPECT_EQ(server(), "https://www.modelscope.ai");
  ::setenv("MODELSCOPE_ENDPOINT", "http://localhost:8080/", 1);
  EXPECT_EQ(server(), "http://localhost:8080");
  ::setenv("MODELSCOPE_ENDPOINT", "http://mirror.example", 1);
  EXPECT_EQ(server(), "error: http://mirror.example/: http:// needs --insecure");
  EXPECT_EQ(server(true), "http://mirror.example");
  ::setenv("MODELSCOPE_ENDPOINT", "https://me@mirror.example", 1);
  EXPECT_THAT(server(), HasSubstr(": not the URL of a server"));
}

TEST_F(ModelScopeServer, TokenIsForTheConfiguredServerOnly) {
  ::setenv("MODELSCOPE_HOME", temporary.path("").c_str(), 1);
  EXPECT_EQ(token_for("https://modelscope.cn"), "");
  EXPECT_EQ(origin_for("https://modelscope.cn"), "");
  temporary.write("token", " T1\n");
  EXPECT_EQ(token_for("https://modelscope.cn"), "Bearer T1, Cookie: m_session_id=T1");
  EXPECT_EQ(origin_for("https://modelscope.cn"), modelscope::token_path());
  ::setenv("MODELSCOPE_API_TOKEN", "T2", 1);
  EXPECT_EQ(token_for("https://modelscope.cn"), "Bearer T2, Cookie: m_session_id=T2");
  EXPECT_EQ(origin_for("https://modelscope.cn"), "$MODELSCOPE_API_TOKEN");
  EXPECT_EQ(token_for("https://mirror.example"), "");
  ::setenv("MODELSCOPE_ENDPOINT", "http://mirror.example", 1);
  EXPECT_EQ(token_for("http://mirror.example"), "") << "not over http";
  ::setenv("MODELSCOPE_ENDPOINT", "https://mirror.example", 1);
  for (const char* const token : {"a;b", "a b", "a\"b", "a,b"}) {
    ::setenv("MODELSCOPE_API_TOKEN", token, 1);
    EXPECT_EQ(token_for("https://mirror.example"), "error: $MODELSCOPE_API_TOKEN: not a token") << token;
  }
}

std::string list_of(const std::string& entries) { return R"({"Code":200,"Data":{"Files":[)" + entries + "]}}"; }

std::string entry(const std::string& path, const std::string& sha256) {
  return R"({"Type":"blob","Path":")" + path + R"(","Size":7,"CommittedDate":5,"Sha256":")" + sha256 + R"("})";
}

TEST(ModelScopeFiles, HaveSizeDigestAndTime) {
  const std::string digest(64, 'A');
  const auto list = modelscope::parse_files(
      list_of(R"({"Type":"tree","Path":"d","Size":0},)" + entry("d/a", digest) + "," + entry("b", "")));
  ASSERT_TRUE(list) << list.error().message;
  ASSERT_EQ(list->files.size(), 1U);
  EXPECT_EQ(list->files[0].path, "d/a");
  EXPECT_EQ(list->files[0].size, 7U);
  EXPECT_EQ(list->files[0].sha256.hex(), std::string(64, 'a'));
  EXPECT_EQ(list->files[0].modified, 5'000'000'000);
  EXPECT_THAT(list->warnings, ElementsAre("\"b\": the list has no SHA-256 of it; left out"));
}

TEST(ModelScopeFiles, OtherResponsesAreRefused) {
  for (const char* const text : {"", "[]", "{}", R"({"Code":200})", R"({"Code":200,"Data":{}})",
                                 R"({"Code":200,"Data":{"Files":[1]}})", R"({"Code":200,"Data":{"Files":[{}]}})",
                                 R"({"Code":200,"Data":{"Files":[{"Type":"blob","Path":"a","Size":-1}]}})"})
    EXPECT_FALSE(modelscope::parse_files(text)) << text;
  const auto missing = modelscope::parse_files(R"({"Code":404,"Message":"gone"})");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, Code::not_found);
  EXPECT_EQ(missing.error().message, "the server reports 404: \"gone\"");
  const auto refused = modelscope::parse_files(R"({"Code":403,"Message":"no access with ms-01234567-89ab-cdef"})");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message, "the server reports 403: \"no access with ...\"");
}

}  // namespace
}  // namespace weightfs::test::modelscope_test
