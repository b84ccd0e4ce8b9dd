// The names, and the responses of the Hub. tests/mount/test_hub.py shows the rest.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "cache/direct_client.h"
#include "protocols/huggingface/api.h"
#include "protocols/keyring.h"
#include "tests/support/temporary.h"

namespace weightfs::huggingface::huggingface_test {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

const std::string kCommit(40, 'a');
const std::string kHex64(64, 'b');

// Sets a variable of the environment until its end.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    ::setenv(name, value.c_str(), 1);
  }
  ~Variable() {
    if (before_)
      ::setenv(name_, before_->c_str(), 1);
    else
      ::unsetenv(name_);
  }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
  std::optional<std::string> before_;
};

std::string error_in(std::string_view text) {
  const auto name = parse_name(text);
  return name ? "" : name.error().message;
}

std::string parsed(std::string_view text) {
  const auto name = parse_name(text);
  return name ? name->text() : name.error().message;
}

TEST(HuggingfaceName, HasDefaults) {
  const Name name = *parse_name("//org/repo");
  EXPECT_EQ(name.server, "");
  EXPECT_EQ(name.kind, "models");
  EXPECT_EQ(name.id, "org/repo");
  EXPECT_EQ(name.revision, "main");
  EXPECT_EQ(name.path, "");
}

TEST(HuggingfaceName, HasRevisionAndPath) {
  const Name name = *parse_name("//my-org/Some.Repo_1@v1.0+x/sub/model.gguf");
  EXPECT_EQ(name.id, "my-org/Some.Repo_1");
  EXPECT_EQ(name.revision, "v1.0+x");
  EXPECT_EQ(name.path, "sub/model.gguf");
  EXPECT_EQ(parse_name("//org/repo/a@b/c")->path, "a@b/c");
  EXPECT_EQ(parse_name("//org/repo/sub/")->path, "sub");
  EXPECT_EQ(parse_name("//org/repo/")->path, "");
}

TEST(HuggingfaceName, SpecialReferencesHaveSlashes) {
  EXPECT_EQ(parse_name("//org/repo@refs/pr/3/train.json")->revision, "refs/pr/3");
  EXPECT_EQ(parse_name("//org/repo@refs/pr/3/train.json")->path, "train.json");
  EXPECT_EQ(parse_name("//org/repo@refs/convert/parquet")->revision, "refs/convert/parquet");
  EXPECT_EQ(parse_name("//org/repo@feature%2Fx/a")->revision, "feature/x");
  EXPECT_EQ(parse_name("//org/repo@feature/x")->revision, "feature");
}

TEST(HuggingfaceName, KindIsPlural) {
  EXPECT_EQ(parse_name("//models/org/repo")->kind, "models");
  EXPECT_EQ(parse_name("//datasets/org/repo@x")->kind, "datasets");
  EXPECT_EQ(parse_name("//spaces/org/repo")->id, "org/repo");
  EXPECT_THAT(error_in("//dataset/org/repo"), HasSubstr("datasets/ expected instead of dataset/"));
  EXPECT_THAT(error_in("//model/org/repo"), HasSubstr("models/ expected"));
  EXPECT_THAT(error_in("//buckets/org/repo"), HasSubstr("buckets are not supported"));
}

TEST(HuggingfaceName, ServerHasADotOrAColon) {
  EXPECT_EQ(parse_name("//hub.example/org/repo")->server, "hub.example");
  EXPECT_EQ(parse_name("//Hub.Example/Org/repo")->text(), "hf://hub.example/Org/repo@main");
  EXPECT_EQ(parse_name("//localhost/org/repo")->server, "localhost");
  EXPECT_EQ(parse_name("//127.0.0.1:8080/datasets/org/repo")->server, "127.0.0.1:8080");
  EXPECT_EQ(parse_name("//[::1]:80/org/repo")->server, "[::1]:80");
  EXPECT_EQ(parse_name("//http://localhost:80/org/repo@x/y")->server, "http://localhost:80");
  EXPECT_EQ(parse_name("//http://localhost:80/org/repo@x/y")->path, "y");
  // After a kind, an organization may have a dot.
  EXPECT_EQ(parse_name("//models/my.org/repo")->id, "my.org/repo");
}

TEST(HuggingfaceName, InvalidOnesAreRefused) {
  EXPECT_THAT(error_in("org/repo"), HasSubstr("hf://ORG/REPO expected"));
  EXPECT_THAT(error_in("/org/repo"), HasSubstr("hf://ORG/REPO expected"));
  for (const char* const text :
       {"//", "//gpt2", "//org/", "//gpt2@main", "//org@main/repo", "//models/gpt2", "///repo"})
    EXPECT_NE(error_in(text), "") << text;
  EXPECT_THAT(error_in("//org/repo@"), HasSubstr("a revision is expected"));
  EXPECT_THAT(error_in("//org/repo@/x"), HasSubstr("a revision is expected"));
  for (const char* const revision :
       {"..", "a..b", "refs/pr/", "a b", "a%0ab", "%", "%zz", "a%2F", "x:y", "%ff", "~", "a%00"})
    EXPECT_NE(error_in("//org/repo@" + std::string(revision)), "") << revision;
  for (const char* const path : {"../x", "a/../b", "a//b", "./a", "a/.", "//", "/"})
    EXPECT_NE(error_in("//org/repo/" + std::string(path)), "") << path;
  for (const char* const id : {"../x", "a b/c", "org/re%po", "org/r\x01", "o\xC3\xA4/x", "-/?"})
    EXPECT_NE(error_in("//" + std::string(id)), "") << id;
  EXPECT_NE(error_in("//org/" + std::string(300, 'x')), "");
  EXPECT_NE(error_in("//org/repo/" + std::string(5000, 'x')), "");
}

TEST(HuggingfaceName, PasswordInAServerIsNotShown) {
  EXPECT_EQ(error_in("//https://user:secret@host/org/repo").find("secret"), std::string::npos);
  EXPECT_NE(error_in("//https://user:secret@host/org/repo"), "");
  EXPECT_NE(error_in("//user:secret@host/org/repo"), "");
}

TEST(HuggingfaceName, TextNamesTheSame) {
  EXPECT_EQ(parsed("//org/repo"), "hf://org/repo@main");
  EXPECT_EQ(parsed("//datasets/org/repo@refs/pr/1/a/b"), "hf://datasets/org/repo@refs/pr/1/a/b");
  EXPECT_EQ(parsed("//host.example/org/repo@x"), "hf://host.example/org/repo@x");
}

TEST(HuggingfaceName, PermittedModelHasANameOfTheHubAndMatchesAPattern) {
  for (const char* id : {"Qwen/Qwen2.5-7B", "a/b", "my_org/x.y-z_1"}) EXPECT_TRUE(is_permitted_model(id, {"*"})) << id;
  for (const char* id :
       {"",       "gpt2",   "a/",    "/b",     "a/b/c", "a/..",  "../b",       "a/b.git",    "a/-b",     "a/b.",
        "a/b--c", "a/b..c", "a b/c", "a/b%2e", "a/b\n", "api/x", "datasets/x", "Datasets/x", "spaces/x", "models/x"})
    EXPECT_FALSE(is_permitted_model(id, {"*"})) << id;
  EXPECT_FALSE(is_permitted_model("a/" + std::string(97, 'x'), {"*"}));
  EXPECT_TRUE(is_permitted_model("Qwen/Qwen3", {"other/*", "Qwen/Qwen?"}));
  EXPECT_FALSE(is_permitted_model("Qwen/Qwen3", {"Qwen", "qwen/*", "Qwen/Qwen"}));
  EXPECT_FALSE(is_permitted_model("a/b", {}));
}

TEST(HuggingfaceName, UrlsAreEscaped) {
  Name name = *parse_name("//datasets/org/repo@refs/pr/1");
  EXPECT_EQ(api_url("http://h", name, "revision", name.revision),
            "http://h/api/datasets/org/repo/revision/refs%2Fpr%2F1");
  EXPECT_EQ(file_url("http://h", name, kCommit, "a b/c?#%\xC3\xA4"),
            "http://h/datasets/org/repo/resolve/" + kCommit + "/a%20b/c%3F%23%25%C3%A4");
  name.kind = "models";
  EXPECT_EQ(file_url("http://h/prefix", name, "c", "x"), "http://h/prefix/org/repo/resolve/c/x");
  EXPECT_EQ(page_url("http://h", name), "http://h/org/repo");
}

TEST(HuggingfaceHub, ServerIsThatOfTheNameOrOfTheEnvironment) {
  const auto endpoint = [](std::string_view text) {
    const auto hub = hub_of(*parse_name(text), nullptr, nullptr, false);
    return hub ? hub->endpoint : hub.error().message;
  };
  EXPECT_EQ(endpoint("//org/repo"), "https://huggingface.co");
  EXPECT_EQ(endpoint("//hf.co/org/repo"), "https://huggingface.co");
  EXPECT_EQ(endpoint("//hub.example:8/org/repo"), "https://hub.example:8");
  EXPECT_EQ(endpoint("//localhost:8/org/repo"), "http://localhost:8");
  EXPECT_THAT(endpoint("//http://hub.example/org/repo"), HasSubstr("http:// needs --insecure"));
  const Variable variable("HF_ENDPOINT", "https://mirror.example/hub/");
  EXPECT_EQ(endpoint("//org/repo"), "https://mirror.example/hub");
  const Variable plain("HF_ENDPOINT", "http://mirror.example");
  EXPECT_THAT(endpoint("//org/repo"), HasSubstr("http:// needs --insecure"));
  const Variable invalid("HF_ENDPOINT", "ftp://user:secret@x");
  EXPECT_EQ(endpoint("//org/repo").find("secret"), std::string::npos);
  EXPECT_THAT(endpoint("//org/repo"), StartsWith("HF_ENDPOINT=ftp://x"));
  EXPECT_THAT(endpoint("//org/repo"), HasSubstr("not the URL of a server"));
}

TEST(HuggingfaceHub, InsecureAllowsHttp) {
  const auto hub = hub_of(*parse_name("//hub.example/org/repo"), nullptr, nullptr, true);
  EXPECT_EQ(hub->endpoint, "http://hub.example");
}

// A name comes from anywhere; the token is for the user's own server.
TEST(HuggingfaceHub, TokenIsNotForAServerThatOnlyTheNameHas) {
  const auto http = std::make_shared<http::DirectClient>(http::Options{}, std::make_shared<UserKeyring>());
  const Variable token("HF_TOKEN", " hf_secret\n");
  const auto authorization = [&](std::string_view text) {
    return hub_of(*parse_name(text), nullptr, http, false)->credentials->authorization();
  };
  EXPECT_EQ(authorization("//org/repo"), "Bearer hf_secret");
  EXPECT_EQ(authorization("//huggingface.co/org/repo"), "Bearer hf_secret");
  EXPECT_EQ(authorization("//hub.example/org/repo"), "");
  const Variable endpoint("HF_ENDPOINT", "https://hub.example/");
  EXPECT_EQ(authorization("//hub.example/org/repo"), "Bearer hf_secret");
  const Variable disabled("HF_HUB_DISABLE_IMPLICIT_TOKEN", "True");
  EXPECT_EQ(authorization("//org/repo"), "");
}

// Without a fetcher, too: the user may log in again while a mount lasts.
TEST(HuggingfaceHub, TokenIsReadForEachRequest) {
  const TemporaryDirectory here;
  const Variable no_token("HF_TOKEN", ""), no_old_token("HUGGING_FACE_HUB_TOKEN", "");
  const Variable path("HF_TOKEN_PATH", here.write("token", "one"));
  const auto http = std::make_shared<http::DirectClient>(http::Options{}, std::make_shared<UserKeyring>());
  const auto credentials = hub_of(*parse_name("//org/repo"), nullptr, http, false)->credentials;
  EXPECT_EQ(credentials->authorization(), "Bearer one");
  here.write("token", "two");
  EXPECT_EQ(credentials->authorization(), "Bearer two");
  EXPECT_EQ(credentials->description(), "with the token of " + here.path("token"));
  here.write("token", "not a token");
  EXPECT_EQ(credentials->authorization(), "Bearer two");
  here.write("token", "");
  EXPECT_EQ(credentials->authorization(), "");
  EXPECT_EQ(credentials->description(), "");
}

TEST(HuggingfaceToken, IsSearchedInOrder) {
  const TemporaryDirectory here;
  const Variable no_cache("XDG_CACHE_HOME", "");
  const Variable no_home("HF_HOME", "");
  const Variable home("HOME", here.path("home"));
  EXPECT_EQ(token_path(), here.path("home") + "/.cache/huggingface/token");
  EXPECT_EQ(token_of_user()->text, "");
  const Variable cache("XDG_CACHE_HOME", here.path("cache"));
  EXPECT_EQ(token_path(), here.path("cache") + "/huggingface/token");
  const Variable hf_home("HF_HOME", here.path("hf"));
  here.write("hf/token", "hf_file\n");
  EXPECT_EQ(token_of_user()->text, "hf_file");
  const Variable path("HF_TOKEN_PATH", here.write("other", "hf_other"));
  EXPECT_EQ(token_of_user()->text, "hf_other");
  const Variable old("HUGGING_FACE_HUB_TOKEN", "hf_old");
  EXPECT_EQ(token_of_user()->text, "hf_old");
  EXPECT_EQ(token_of_user()->from, "$HUGGING_FACE_HUB_TOKEN");
  const Variable token("HF_TOKEN", "hf_new");
  EXPECT_EQ(token_of_user()->text, "hf_new");
}

TEST(HuggingfaceCache, IsSearchedInOrder) {
  const Variable no_cache("XDG_CACHE_HOME", "");
  const Variable no_home("HF_HOME", "");
  const Variable no_hub("HF_HUB_CACHE", "");
  const Variable home("HOME", "/home/user");
  EXPECT_EQ(cache_path(), "/home/user/.cache/huggingface/hub");
  const Variable cache("XDG_CACHE_HOME", "/cache");
  EXPECT_EQ(cache_path(), "/cache/huggingface/hub");
  const Variable hf_home("HF_HOME", "/hf");
  EXPECT_EQ(cache_path(), "/hf/hub");
  const Variable hub("HF_HUB_CACHE", "/hub");
  EXPECT_EQ(cache_path(), "/hub");
}

TEST(HuggingfaceToken, TextThatIsNoTokenIsRefusedAndNotShown) {
  for (const char* const text : {"hf_a\r\nX-Header: b", "hf_a b", "hf_\xC3\xA4", "hf_\x01"}) {
    const Variable token("HF_TOKEN", text);
    const auto found = token_of_user();
    ASSERT_FALSE(found);
    EXPECT_EQ(found.error().message, "$HF_TOKEN: not a token");
  }
}

TEST(HuggingfaceRevision, HasFacts) {
  const auto revision =
      parse_revision(R"({"id":"org/repo","sha":")" + kCommit + R"(","lastModified":"2024-05-06T07:08:09.000Z",
      "gated":"auto","tags":["license:mit","base_model:a/b"],"library_name":"gguf","cardData":{"license":"apache-2.0"}})");
  ASSERT_TRUE(revision) << revision.error().message;
  EXPECT_EQ(revision->id, "org/repo");
  EXPECT_EQ(revision->commit, kCommit);
  EXPECT_EQ(revision->modified, Time{1714979289} * 1'000'000'000);
  EXPECT_EQ(to_json_line(revision->facts),
            R"({"repository":"org/repo","commit":")" + kCommit +
                R"(","license":"apache-2.0","gated":"auto","library":"gguf","base_model":"a/b"})");
}

TEST(HuggingfaceRevision, InvalidOneIsRefused) {
  const std::string id = R"("id":"org/repo")";
  const std::string sha = R"("sha":")" + kCommit + "\"";
  EXPECT_TRUE(parse_revision("{" + id + "," + sha + "}"));
  for (const std::string& text :
       {std::string("[]"), std::string("<html>"), "{" + id + "}", "{" + sha + "}", R"({"id":"../x",)" + sha + "}",
        "{" + id + R"(,"sha":"../../x"})", "{" + id + R"(,"sha":5})", std::string("{\"a\":") + std::string(1000, '[')})
    EXPECT_FALSE(parse_revision(text)) << text;
}

// The longest facts of hostile servers.
TEST(HuggingfaceRevision, LongFactsAreLeftOut) {
  const auto revision = parse_revision(R"({"id":"org/repo","sha":")" + kCommit + R"(","library_name":")" +
                                       std::string(2000, 'x') + R"(","gated":{"a":[]},"tags":[5,"license:)" +
                                       std::string(2000, 'x') + R"("],"lastModified":"x","cardData":7})");
  ASSERT_TRUE(revision);
  EXPECT_EQ(revision->facts.size(), 2u);
  EXPECT_EQ(revision->modified, 0);
}

TEST(HuggingfaceFiles, AreReadFromAPage) {
  const auto files = parse_files(R"([{"type":"directory","path":"a","oid":"x","size":0},
      {"type":"file","path":"a/b","oid":")" +
                                 kCommit + R"(","size":5},
      {"type":"file","path":"m","oid":")" +
                                 kCommit + R"(","size":134,"lfs":{"oid":")" + kHex64 + R"(","size":7}}])");
  ASSERT_TRUE(files) << files.error().message;
  ASSERT_EQ(files->size(), 2u);
  EXPECT_EQ((*files)[0].path, "a/b");
  EXPECT_EQ((*files)[0].size, 5u);
  EXPECT_EQ((*files)[0].git_id->hex(), kCommit);
  EXPECT_FALSE((*files)[0].sha256);
  EXPECT_EQ((*files)[1].size, 7u);
  EXPECT_EQ((*files)[1].sha256->hex(), kHex64);
}

// The Hub hides the digests of a gated repository from users without access.
TEST(HuggingfaceFiles, HiddenDigestIsNoDigest) {
  const auto listed = [](const std::string& digest) {
    return parse_files(R"([{"type":"file","path":"m","oid":")" + kCommit + R"(","size":134,"lfs":{"oid":")" + digest +
                       R"(","size":7},"xetHash":")" + digest + R"("}])");
  };
  const auto files = listed(std::string(64, '*'));
  ASSERT_TRUE(files) << files.error().message;
  EXPECT_TRUE(files->front().is_digest_hidden);
  EXPECT_FALSE(files->front().sha256);
  EXPECT_FALSE(listed(kHex64)->front().is_digest_hidden);
  EXPECT_FALSE(listed(std::string(63, '*')));
}

// `weightfs serve` has not read a large file to list it.
TEST(HuggingfaceFiles, UnknownDigestIsNull) {
  const auto files = parse_files(R"([{"type":"file","path":"m","oid":null,"size":7}])");
  ASSERT_TRUE(files) << files.error().message;
  EXPECT_FALSE(files->front().git_id);
  EXPECT_FALSE(files->front().sha256);
  EXPECT_FALSE(files->front().is_digest_hidden);
  EXPECT_FALSE(parse_files(R"([{"type":"file","path":"m","size":7}])"));
}

TEST(HuggingfaceFiles, InvalidPageIsRefused) {
  for (const std::string& text :
       {std::string("{}"), std::string("[5]"), std::string("[{}]"), std::string("[{\"type\":\"file\"}]"),
        std::string("[["), R"([{"type":"file","path":"a","oid":")" + kCommit + R"("}])",
        R"([{"type":"file","path":"a","oid":")" + kCommit + R"(","size":-1}])",
        R"([{"type":"file","path":"a","oid":")" + kCommit + R"(","size":1e30}])",
        R"([{"type":"file","path":"a","oid":")" + kCommit + R"(","size":9223372036854775807}])",
        std::string(R"([{"type":"file","path":"a","oid":"..","size":1}])"),
        R"([{"type":"link","path":"a","oid":")" + kCommit + R"(","size":1}])",
        R"([{"type":"file","path":"m","oid":")" + kCommit + R"(","size":1,"lfs":{"oid":"x","size":7}}])"})
    EXPECT_FALSE(parse_files(text)) << text;
}

TEST(HuggingfaceFiles, TooManyValuesAreRefused) {
  std::string text = "[0";
  for (int i = 0; i < 2'000'001; ++i) text += ",0";
  const auto files = parse_files(text + "]");
  ASSERT_FALSE(files);
  EXPECT_THAT(files.error().message, HasSubstr("too many values"));
}

TEST(HuggingfaceErrors, WhatMayBeATokenIsHidden) {
  Hub hub;
  hub.endpoint = "https://hub.example";
  hub.credentials = std::make_shared<http::FixedCredentials>("Bearer hf_0123456789abcdefghij", "with $HF_TOKEN");
  const auto refused = [&](int status, const std::string& code) {
    download::Response response;
    response.head.status = status;
    response.head.headers = {{"x-error-code", code},
                             {"x-error-message", "awaiting hf_0123456789abcdefghij at https://cdn/m?Signature=secret"}};
    return error_of(hub, *parse_name("//org/repo"), response).message;
  };
  EXPECT_EQ(refused(403, "GatedRepo"), "hf://org/repo@main: gated: awaiting ... at https://cdn/m");
  EXPECT_EQ(refused(400, ""), "hf://org/repo@main: status 400, awaiting ... at https://cdn/m");
}

TEST(HuggingfaceFiles, NextPageIsOnTheSameServer) {
  const auto next = [](const std::string& link, const std::string& endpoint = "http://127.0.0.1:8") {
    http::Response page;
    page.url = endpoint + "/api/x?a=b";
    page.headers = {{"link", "<http://other/>; rel=\"prev\""}, {"link", link}};
    return next_page(page, endpoint);
  };
  EXPECT_EQ(next("<http://127.0.0.1:8/api/x?cursor=1>; rel=\"next\""), "http://127.0.0.1:8/api/x?cursor=1");
  EXPECT_EQ(next("</api/x?cursor=1>; rel=\"next\""), "http://127.0.0.1:8/api/x?cursor=1");
  EXPECT_EQ(next("<https://huggingface.co/api/x?cursor=1>; rel=\"next\""), "http://127.0.0.1:8/api/x?cursor=1");
  EXPECT_EQ(next("<https://huggingface.co/api/x?c=1>; rel=\"next\"", "https://m.example/p"),
            "https://m.example/p/api/x?c=1");
  EXPECT_EQ(next("<a>; rel=\"last\", </b>; rel=\"next\""), "http://127.0.0.1:8/b");
  EXPECT_EQ(next("<file:///etc/passwd>; rel=\"next\""), "");
  EXPECT_EQ(next("<http://evil>; rel=\"next\""), "http://127.0.0.1:8/");
  EXPECT_EQ(next("<"), "");
  EXPECT_EQ(next("<>; rel=\"prev\""), "");
}

}  // namespace
}  // namespace weightfs::huggingface::huggingface_test
