#include "cli/doctor/check_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace weightfs::doctor::check_source_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

constexpr const char* kStore = "https://models.s3.eu-west-1.amazonaws.com:443";

std::vector<std::string> names_of(const Checks& checks) {
  std::vector<std::string> names;
  for (const Check& check : checks) names.push_back(check.name);
  return names;
}

// A request to the store with this status, which the command reports.
SourceFacts refused(const std::string& source, int status, Error error) {
  SourceFacts facts{.source = source, .requests = {{kStore, 1}}, .error = std::move(error)};
  if (status != 0) facts.answers[kStore] = {.last = status};
  return facts;
}

std::string advice(const SourceFacts& facts) { return checks_of(facts).back().advice; }

TEST(CheckSource, LocalFileHasNoServer) {
  const Checks checks = checks_of({.source = "model.gguf"});
  ASSERT_THAT(names_of(checks), ElementsAre("source", "opening"));
  EXPECT_EQ(checks[0].found, "model.gguf is a local file or directory");
  EXPECT_EQ(checks[1].found, "it opens");
  EXPECT_EQ(checks[1].verdict, Verdict::ok);
}

TEST(CheckSource, KindsAreNamedByTheirPrefix) {
  for (const auto& [source, kind] :
       std::vector<std::pair<std::string, std::string>>{{"hf://org/repo", "Hugging Face Hub"},
                                                        {"S3://bucket/key", "Amazon S3"},
                                                        {"gs://bucket/key", "Google Cloud Storage"},
                                                        {"abfss://c@a.dfs.core.windows.net/x", "Azure Blob Storage"},
                                                        {"oci://host/name", "a model in a registry"},
                                                        {"ms://org/name", "ModelScope"},
                                                        {"https://host/m.gguf", "web server"},
                                                        {"./oci:x", "a local file or directory"}})
    EXPECT_THAT(checks_of({.source = source})[0].found, HasSubstr(kind)) << source;
}

TEST(CheckSource, QueryOfAUrlIsNotShown) {
  for (const Check& check : checks_of({.source = "https://host/m.gguf?sig=secret"}))
    EXPECT_THAT(check.found, testing::Not(HasSubstr("secret")));
}

TEST(CheckSource, EachServerHasItsKeyAndItsAnswer) {
  SourceFacts facts{.source = "s3://models/x"};
  facts.requests = {{kStore, 2}, {"https://sts.amazonaws.com:443", 1}};
  facts.answers[kStore] = {.last = 404, .accepted = 206};
  facts.keys[kStore] = {"STS web identity", std::chrono::sys_seconds(std::chrono::seconds(1'700'000'000)),
                        std::chrono::sys_seconds(std::chrono::seconds(1'700'003'600))};
  const Checks checks = checks_of(facts);
  ASSERT_THAT(names_of(checks), ElementsAre("source", "server", "key", "answer", "server", "key", "answer", "opening"));
  EXPECT_EQ(checks[1].found, std::string(kStore) + ", 2 requests");
  EXPECT_EQ(checks[2].found,
            "STS web identity, read Tue, 14 Nov 2023 22:13:20 GMT; expires Tue, 14 Nov 2023 23:13:20 GMT");
  EXPECT_EQ(checks[3].found, "206 Partial Content") << "an optional file may be missing";
  EXPECT_EQ(checks[5].found, "none: requests are anonymous");
  EXPECT_EQ(checks[6].found, "none to a request for files");
}

TEST(CheckSource, AdviceDependsOnTheStatusAndOnTheKey) {
  const Error error(Code::forbidden, "access denied");
  SourceFacts facts = refused("hf://org/repo", 401, error);
  EXPECT_EQ(checks_of(facts)[3].found, "401 Unauthorized");
  EXPECT_EQ(advice(facts), "the server wants a key: set HF_TOKEN, or run hf auth login");
  facts.keys[kStore] = {.from = "$HF_TOKEN"};
  EXPECT_THAT(advice(facts), StartsWith("the server does not accept the key of $HF_TOKEN: replace it"));
  facts = refused("s3://models/x", 403, error);
  EXPECT_THAT(advice(facts), StartsWith("the server refuses requests without a key: set AWS_ACCESS_KEY_ID"));
  facts.keys[kStore] = {.from = "$AWS_ACCESS_KEY_ID"};
  EXPECT_THAT(advice(facts), StartsWith("the key of $AWS_ACCESS_KEY_ID is wrong, or has no right"));
  facts = refused("az://a/c/x", 404, Error(Code::not_found, "no such blob"));
  EXPECT_THAT(advice(facts), StartsWith("check the name; if it is private: set AZURE_STORAGE_ACCOUNT_KEY"));
  facts.keys[kStore] = {.from = "client secret"};
  EXPECT_EQ(advice(facts), "check the name, and that the key may read it");
  EXPECT_EQ(advice(refused("https://h/x", 503, Error(Code::network, "status 503"))),
            "the server is busy or has failed: try again later");
}

TEST(CheckSource, AdviceForConnectionsIsThatOfTheMessage) {
  const auto of = [](const std::string& source, const std::string& message) {
    return advice(refused(source, 0, Error(Code::unreachable, message)));
  };
  EXPECT_THAT(of("https://h/x", "cannot resolve the host name"), HasSubstr("spelling"));
  EXPECT_THAT(of("https://h/x", "certificate not accepted: self signed"), HasSubstr("SSL_CERT_FILE"));
  EXPECT_THAT(of("s3://b/x", "certificate not accepted: self signed"), HasSubstr("AWS_CA_BUNDLE"));
  for (const char* const message :
       {"the server requires a client certificate; name the file with it by --client-certificate https://HOST=FILE",
        "the server does not accept the client certificate", "--client-certificate: x.pem: no certificate (PEM) in it"})
    EXPECT_THAT(advice(refused("https://h/x", 0, Error(Code::forbidden, message))),
                StartsWith("name a file with a client certificate"));
  EXPECT_THAT(of("https://h/x", "the proxy http://p/ ($https_proxy): connection refused"), HasSubstr("no_proxy"));
  EXPECT_THAT(of("https://h/x", "connection refused"), HasSubstr("reaches its port"));
}

TEST(CheckSource, WrongClockComesBeforeTheKey) {
  SourceFacts facts = refused("s3://models/x", 403, Error(Code::forbidden, "RequestTimeTooSkewed"));
  facts.keys[kStore] = {.from = "$AWS_ACCESS_KEY_ID"};
  facts.answers[kStore].clock_ahead = std::chrono::minutes(20);
  EXPECT_EQ(advice(facts), "set the clock of this machine: it is 20 minutes behind that of the server");
  facts.answers[kStore].clock_ahead = std::chrono::minutes(-20);
  EXPECT_EQ(advice(facts), "set the clock of this machine: it is 20 minutes ahead of that of the server");
  facts.answers[kStore].clock_ahead = std::chrono::minutes(4);
  EXPECT_THAT(advice(facts), StartsWith("the key of"));
}

TEST(CheckSource, EveryFailureHasAdvice) {
  for (const Code code : {Code::not_found, Code::io, Code::corrupt, Code::unsupported, Code::mismatch, Code::network,
                          Code::unreachable, Code::forbidden, Code::resource, Code::stale, Code::absent})
    for (const char* const source : {"model.gguf", "hf://org/repo", "https://host/x"})
      for (const int status : {0, 200, 401, 403, 404, 500})
        EXPECT_NE(advice(refused(source, status, Error(code, "text"))), "") << status;
}

}  // namespace
}  // namespace weightfs::doctor::check_source_test
