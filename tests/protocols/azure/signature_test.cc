// The signature of requests to Azure Storage, and what a Signer adds to a request.
#include "protocols/azure/signature.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/values/base64.h"
#include "protocols/azure/signer.h"

namespace weightfs::azure::signature_test {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

// The account and key of the emulator, which are public.
constexpr const char* kAccount = "devstoreaccount1";
constexpr const char* kKey = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

// The example of learn.microsoft.com, "Authorize with Shared Key": constructing the signature string.
TEST(SharedKey, TextIsThatOfTheDocumentation) {
  const SignedRequest request{
      "GET",
      "https://myaccount.blob.core.windows.net/mycontainer?restype=container&comp=metadata&timeout=20",
      {{"x-ms-version", "2015-02-21"}, {"x-ms-date", "Fri, 26 Jun 2015 23:39:12 GMT"}},
      "myaccount"};
  EXPECT_EQ(text_to_sign(request),
            "GET\n\n\n\n\n\n\n\n\n\n\n\n"
            "x-ms-date:Fri, 26 Jun 2015 23:39:12 GMT\nx-ms-version:2015-02-21\n"
            "/myaccount/mycontainer\ncomp:metadata\nrestype:container\ntimeout:20");
}

TEST(SharedKey, ParametersAreDecodedAndSortedByNamesInLowerCase) {
  const SignedRequest request{
      "GET", "https://a.blob.core.windows.net/c?Prefix=b%2Fa%20c&include=z&comp=list&include=a&marker", {}, "a"};
  EXPECT_THAT(text_to_sign(request), testing::EndsWith("/a/c\ncomp:list\ninclude:a,z\nmarker:\nprefix:b/a c"));
}

// The value was computed with hmac and hashlib of Python.
TEST(SharedKey, RangeAndConditionAreSigned) {
  const SignedRequest request{"GET",
                              "http://127.0.0.1:10000/devstoreaccount1/models/a%20b.gguf",
                              {{"x-ms-version", "2023-11-03"},
                               {"x-ms-date", "Fri, 26 Jun 2015 23:39:12 GMT"},
                               {"range", "bytes=0-9"},
                               {"if-match", "\"0x8D\""}},
                              kAccount};
  EXPECT_EQ(shared_key_authorization(request, from_base64(kKey).value()),
            "SharedKey devstoreaccount1:lJd8mXGaiW6jG5dAQzOl6a/Xa5tLNFhrykjD9GTUk9I=");
}

TEST(SharedKey, Md5IsInBase64) { EXPECT_EQ(md5_in_base64("abc"), "kAFQmDzST7DWlj99KOF/cg=="); }

Settings with_key(Auth auth, const std::string& secret) {
  Settings settings;
  settings.account = kAccount;
  settings.auth = auth;
  settings.secret = secret;
  settings.keys_from = "$THE_VARIABLE";
  return settings;
}

Signer signer(const Settings& settings, const std::string& account = kAccount, const std::string& sas = "",
              const std::string& domain = "") {
  return {std::make_shared<UserCredentials>(settings), account, domain, sas};
}

TEST(AzureSigner, KeySignsTheHeadersOfTheRequest) {
  Signer one = signer(with_key(Auth::shared_key, kKey));
  const std::string url = "https://devstoreaccount1.blob.core.windows.net/c/b";
  const auto with_range = one.headers_beside("GET", url, {"Range: bytes=0-9"});
  EXPECT_THAT(with_range, Contains(StartsWith("Authorization: SharedKey devstoreaccount1:")));
  EXPECT_THAT(with_range, Contains("x-ms-version: 2023-11-03"));
  std::string date;
  for (const std::string& line : with_range)
    if (line.starts_with("x-ms-date: ")) date = line.substr(11);
  const SignedRequest request{
      "GET", url, {{"x-ms-version", "2023-11-03"}, {"x-ms-date", date}, {"range", "bytes=0-9"}}, kAccount};
  EXPECT_THAT(with_range, Contains("Authorization: " + shared_key_authorization(request, from_base64(kKey).value())));
  EXPECT_EQ(one.query(), "");
  EXPECT_EQ(one.key_origin().from, "$THE_VARIABLE");
  EXPECT_THAT(one.description(), Not(HasSubstr(kKey)));
}

TEST(AzureSigner, SignatureIsInTheQueryOnly) {
  Signer one = signer(with_key(Auth::sas, "sv=1&sig=secret"));
  EXPECT_EQ(one.query(), "sv=1&sig=secret");
  EXPECT_THAT(one.headers("GET", "https://x.example/c"), Not(Contains(HasSubstr("secret"))));
  EXPECT_THAT(one.description(), Not(HasSubstr("secret")));
}

TEST(AzureSigner, CredentialsAreForTheirAccountOnly) {
  for (const Auth auth : {Auth::sas, Auth::shared_key}) {
    Signer other = signer(with_key(auth, kKey), "other");
    EXPECT_EQ(other.query(), "");
    EXPECT_THAT(other.headers("GET", "https://x.example/c"), Not(Contains(HasSubstr("Authorization"))));
    EXPECT_EQ(other.description(),
              "tried anonymously: the credentials of the environment are for the account \"devstoreaccount1\"");
    EXPECT_EQ(other.key_origin().from, "");
  }
}

TEST(AzureSigner, CredentialsAreForTheirCloudOnly) {
  const std::string china = "core.chinacloudapi.cn";
  Settings settings = with_key(Auth::sas, "sig=secret");
  EXPECT_EQ(signer(settings, kAccount, "", china).query(), "");
  EXPECT_THAT(signer(settings, kAccount, "", china).description(), HasSubstr("in core.windows.net"));
  EXPECT_EQ(signer(settings, kAccount, "", kPublicCloud).query(), "sig=secret");
  settings.endpoint = "https://devstoreaccount1.blob.core.chinacloudapi.cn";
  EXPECT_EQ(signer(settings, kAccount, "", china).query(), "sig=secret");
  EXPECT_EQ(signer(settings, kAccount, "", kPublicCloud).query(), "");
}

TEST(AzureSigner, SignatureOfTheUrlIsUsedInsteadOfAKey) {
  Signer one = signer(with_key(Auth::shared_key, kKey), "other", "sig=of-the-url");
  EXPECT_EQ(one.query(), "sig=of-the-url");
  EXPECT_THAT(one.headers("GET", "https://x.example/c"), Not(Contains(HasSubstr("Authorization"))));
  EXPECT_EQ(one.key_origin().from, "the URL");
}

}  // namespace
}  // namespace weightfs::azure::signature_test
