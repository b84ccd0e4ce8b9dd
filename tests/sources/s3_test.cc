// Names of objects, and the requests that they cause.
#include "protocols/s3.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "cache/direct_client.h"
#include "protocols/keyring.h"
#include "sources/kinds.h"
#include "sources/source.h"
#include "tests/builders/safetensors_builder.h"
#include "tests/support/http_server.h"
#include "tests/support/may_open.h"
#include "tests/support/temporary.h"

namespace weightfs::test::s3_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class S3Test : public testing::Test {
 protected:
  OpenOptions options() {
    StoreOptions store_options;
    store_options.directory = temporary.path("cache");
    store_options.quota = 1 << 30;
    OpenOptions open;
    open.registries.clouds.s3 = std::make_shared<const s3::Settings>(settings);
    store_options.fetching.http = std::make_shared<http::DirectClient>(
        http::Options{}, std::make_shared<UserKeyring>(CredentialPaths(), open.registries.clouds));
    open.registries.http = store_options.fetching.http;
    open.registries.store = blob_store(std::move(store_options));
    open.blobs = open.registries.store;
    return open;
  }
  std::string error(const std::string& source) {
    const auto found = find_source(source, options(), TestProcess::may_open());
    return found ? "" : found.error().message;
  }
  std::vector<std::string> targets() const {
    std::vector<std::string> seen;
    for (const SeenRequest& request : server.requests()) seen.push_back(request.target);
    return seen;
  }

  TemporaryDirectory temporary;
  const std::string model = SafetensorsBuilder().tensor("w", "U8", "1", "x").build();
  HttpServer server{[this](const SeenRequest& request, Wire& wire) {
    if (request.target.find(".safetensors") == std::string::npos) return void(wire.send(answer("404 Not Found", "")));
    serve_file(request, wire, model);
  }};
  s3::Settings settings{.endpoint = server.url("/")};
};

TEST_F(S3Test, KindIsChosenByThePrefix) {
  EXPECT_FALSE(is_path("s3://bucket/key"));
  EXPECT_FALSE(is_path("s3:"));
  EXPECT_TRUE(is_path("./s3:x"));
  EXPECT_TRUE(is_path("s3/key"));
  EXPECT_EQ(printable_source("s3://bucket/key?x#y"), "s3://bucket/key?x#y");
}

TEST_F(S3Test, InvalidNamesAreRefusedWithoutARequest) {
  for (const char* name :
       {"s3:", "s3:/", "s3://", "s3:///key", "s3:bucket/key", "s3://b/..", "s3://b/a/../c", "s3://b/./c", "s3://b//c",
        "s3://b/c//", "s3://b\n/c", "s3://a b/c", "s3://../c", "s3://b?x/c"})
    EXPECT_NE(error(name), "") << name;
  EXPECT_THAT(error("s3://b/" + std::string(1025, 'x')), HasSubstr("at most 1024 bytes"));
  EXPECT_THAT(targets(), IsEmpty());
}

TEST_F(S3Test, KeyIsEncodedInTheUrl) {
  EXPECT_EQ(error("s3://bucket/a b/c+d=%41#?&é.safetensors"), "");
  EXPECT_THAT(targets(), ElementsAre("/bucket/a%20b/c%2Bd%3D%2541%23%3F%26%C3%A9.safetensors"));
}

TEST_F(S3Test, NameOfTheModelIsTheEndOfTheKey) {
  const auto entry = find_source("s3://bucket/a/b.safetensors", options(), TestProcess::may_open());
  ASSERT_TRUE(entry) << entry.error().message;
  EXPECT_EQ(entry->path, "b.safetensors");
  const auto opened = std::get<std::function<Result<Opened>()>>(entry->content)();
  ASSERT_TRUE(opened) << opened.error().message;
  EXPECT_EQ(std::get<OpenedModel>(*opened).source, "s3://bucket/a/b.safetensors");
}

TEST_F(S3Test, WithoutSettingsItIsNotAvailable) {
  OpenOptions open = options();
  open.registries.clouds.s3 = nullptr;
  EXPECT_THAT(find_source("s3://b/k", open, TestProcess::may_open()).error().message, HasSubstr("not available here"));
  EXPECT_THAT(find_source("s3://b/k", {}, TestProcess::may_open()).error().message, HasSubstr("not available here"));
}

TEST_F(S3Test, BlockListIsRefused) {
  OpenOptions open = options();
  open.registries.block_list_digest = Digest{};
  EXPECT_EQ(find_source("s3://b/k", open, TestProcess::may_open()).error().code, Code::unsupported);
}

// ---- where requests go

TEST_F(S3Test, EndpointsAreChecked) {
  for (const char* endpoint :
       {"http://203.0.113.1", "ftp://x/", "x", "http://u:p@127.0.0.1/", "https://a.example/?q"}) {
    settings.endpoint = endpoint;
    EXPECT_NE(error("s3://b/k"), "") << endpoint;
    EXPECT_THAT(error("s3://b/k"), testing::Not(HasSubstr("u:p"))) << endpoint;
  }
  settings = {.region = "not/a/region"};
  EXPECT_THAT(error("s3://b/k"), HasSubstr("not a valid AWS region"));
}

// A proxy sees the host names.
class S3EndpointTest : public S3Test {
 protected:
  void SetUp() override { ::setenv("https_proxy", proxy.url("").c_str(), 1); }
  void TearDown() override { ::unsetenv("https_proxy"); }

  std::string host_of(const std::string& source, const std::string& region) {
    settings = {.region = region};
    const size_t before = proxy.requests().size();
    EXPECT_NE(error(source), "");
    return proxy.requests().size() == before ? "" : proxy.requests()[before].target;
  }

  HttpServer proxy{always(answer("403 Forbidden", ""))};
};

TEST_F(S3EndpointTest, BucketIsInTheHostNameIfItIsOneLabel) {
  EXPECT_EQ(host_of("s3://bucket/k", ""), "bucket.s3.us-east-1.amazonaws.com:443");
  EXPECT_EQ(host_of("s3://my-bucket-2/k", "eu-west-1"), "my-bucket-2.s3.eu-west-1.amazonaws.com:443");
  EXPECT_EQ(host_of("s3://dotted.bucket/k", "eu-west-1"), "s3.eu-west-1.amazonaws.com:443");
  EXPECT_EQ(host_of("s3://Upper_Case/k", "eu-west-1"), "s3.eu-west-1.amazonaws.com:443");
  EXPECT_EQ(host_of("s3://bucket/k", "cn-north-1"), "bucket.s3.cn-north-1.amazonaws.com.cn:443");
}

// ---- settings of the user

class S3SettingsTest : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : kVariables) ::unsetenv(name);
    ::setenv("HOME", temporary.path("").c_str(), 1);
  }
  void TearDown() override {
    for (const char* name : kVariables) ::unsetenv(name);
    if (home.empty()) return;
    ::setenv("HOME", home.c_str(), 1);
  }
  void file(const char* variable, const std::string& text) {
    ::setenv(variable, temporary.write(variable, text).c_str(), 1);
  }

  static constexpr const char* kVariables[] = {"AWS_ACCESS_KEY_ID",   "AWS_SECRET_ACCESS_KEY",
                                               "AWS_SESSION_TOKEN",   "AWS_PROFILE",
                                               "AWS_DEFAULT_PROFILE", "AWS_SHARED_CREDENTIALS_FILE",
                                               "AWS_CONFIG_FILE",     "AWS_REGION",
                                               "AWS_DEFAULT_REGION",  "AWS_ENDPOINT_URL",
                                               "AWS_ENDPOINT_URL_S3"};
  const std::string home = std::getenv("HOME") == nullptr ? "" : std::getenv("HOME");
  TemporaryDirectory temporary;
};

TEST_F(S3SettingsTest, NothingIsAnonymous) {
  const auto found = s3::Settings::of_user();
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_FALSE(found->keys);
  EXPECT_EQ(found->region + found->endpoint + found->note, "");
}

TEST_F(S3SettingsTest, VariablesComeBeforeFiles) {
  file("AWS_SHARED_CREDENTIALS_FILE", "[default]\naws_access_key_id=file\naws_secret_access_key=file\n");
  file("AWS_CONFIG_FILE", "[default]\nregion=file\nendpoint_url=https://file.example\n");
  auto found = s3::Settings::of_user();
  ASSERT_TRUE(found && found->keys);
  EXPECT_EQ(found->keys->id + found->region + found->endpoint, "filefilehttps://file.example");
  ::setenv("AWS_ACCESS_KEY_ID", "id", 1);
  ::setenv("AWS_SECRET_ACCESS_KEY", "secret", 1);
  ::setenv("AWS_SESSION_TOKEN", "token", 1);
  ::setenv("AWS_DEFAULT_REGION", "default-region", 1);
  ::setenv("AWS_ENDPOINT_URL", "https://all.example", 1);
  found = s3::Settings::of_user();
  ASSERT_TRUE(found && found->keys);
  EXPECT_EQ(found->keys->id + found->keys->secret + found->keys->token, "idsecrettoken");
  EXPECT_EQ(found->region + found->endpoint, "default-regionhttps://all.example");
  ::setenv("AWS_REGION", "region", 1);
  ::setenv("AWS_ENDPOINT_URL_S3", "https://s3.example", 1);
  found = s3::Settings::of_user();
  ASSERT_TRUE(found);
  EXPECT_EQ(found->region + found->endpoint, "regionhttps://s3.example");
}

TEST_F(S3SettingsTest, ProfileIsReadFromBothFiles) {
  file("AWS_SHARED_CREDENTIALS_FILE",
       "# comment\n; comment\n[default]\naws_access_key_id = no\n\n[ work ]\r\nAWS_Access_Key_Id = id \r\n"
       "aws_secret_access_key=a+/=b # comment\naws_session_token=t\n");
  file(
      "AWS_CONFIG_FILE",
      "[profile work]\nregion = eu-west-1\nservices = own\ns3 =\n  addressing_style = path\n  endpoint_url = no\n"
      "[services own]\ndynamodb =\n  endpoint_url = https://no.example\ns3 = \n\tendpoint_url = https://own.example\n");
  ::setenv("AWS_PROFILE", "work", 1);
  const auto found = s3::Settings::of_user();
  ASSERT_TRUE(found && found->keys);
  EXPECT_EQ(found->keys->id, "id");
  EXPECT_EQ(found->keys->secret, "a+/=b");
  EXPECT_EQ(found->keys->token, "t");
  EXPECT_EQ(found->region, "eu-west-1");
  EXPECT_EQ(found->endpoint, "https://own.example");
  EXPECT_EQ(found->addressing, s3::Addressing::path);
}

TEST_F(S3SettingsTest, AddressingStyleIsThatOfTheProfile) {
  const auto style = [&](const std::string& value) {
    file("AWS_CONFIG_FILE", "[default]\ns3 =\n  addressing_style = " + value + "\n");
    return s3::Settings::of_user();
  };
  EXPECT_EQ(style("virtual")->addressing, s3::Addressing::host);
  EXPECT_EQ(style("auto")->addressing, s3::Addressing::automatic);
  EXPECT_THAT(style("other").error().message, HasSubstr("addressing_style = \"other\": not auto, path or virtual"));
}

TEST_F(S3SettingsTest, WhatIsNotSupportedIsNamed) {
  file("AWS_CONFIG_FILE", "[default]\nlogin_session = work\n");
  const auto found = s3::Settings::of_user();
  ASSERT_TRUE(found);
  EXPECT_THAT(found->note, HasSubstr("uses login_session (aws login), which is not supported"));
}

TEST_F(S3SettingsTest, IncompleteKeysAndMissingProfilesAreErrors) {
  ::setenv("AWS_PROFILE", "absent", 1);
  EXPECT_THAT(s3::Settings::of_user().error().message, HasSubstr("profile \"absent\" not found"));
  ::unsetenv("AWS_PROFILE");
  ::setenv("AWS_ACCESS_KEY_ID", "id", 1);
  EXPECT_THAT(s3::Settings::of_user().error().message, HasSubstr("incomplete AWS credentials"));
  ::setenv("AWS_SECRET_ACCESS_KEY", "a\nX-Evil: 1", 1);
  const std::string text = s3::Settings::of_user().error().message;
  EXPECT_THAT(text, HasSubstr("control characters"));
  EXPECT_THAT(text, testing::Not(HasSubstr("X-Evil")));
}

TEST_F(S3SettingsTest, InvalidFilesAreHarmless) {
  for (const std::string text :
       {"", "[", "]", "[]", "=", "[default", "[default]\n=\n=x\n x=y\n", "x=y\n[default]\n", "[default]\n\0\n"}) {
    file("AWS_SHARED_CREDENTIALS_FILE", text);
    EXPECT_TRUE(s3::Settings::of_user()) << text;
  }
  file("AWS_SHARED_CREDENTIALS_FILE", std::string((1 << 20) + 1, '#'));
  EXPECT_THAT(s3::Settings::of_user().error().message, HasSubstr("larger than 1.0 MiB"));
  ::setenv("AWS_SHARED_CREDENTIALS_FILE", temporary.path("").c_str(), 1);
  EXPECT_FALSE(s3::Settings::of_user());
}

}  // namespace
}  // namespace weightfs::test::s3_test
