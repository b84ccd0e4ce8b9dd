// Signatures that AWS published: "Examples: Signature Calculations" of the API reference of Amazon S3, and get-vanilla
// of the Signature Version 4 test suite.
#include "protocols/s3/signature.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/digest.h"
#include "protocols/s3/signer.h"

namespace weightfs::s3::s3_signature_test {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::Each;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;
using testing::StartsWith;

const Keys kExample{"AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", ""};

std::shared_ptr<UserKeys> keys(Keys keys) {
  Settings settings;
  settings.keys = std::move(keys);
  return std::make_shared<UserKeys>(std::move(settings));
}

SignedRequest example(const std::string& target) {
  SignedRequest request{"GET", "https://examplebucket.s3.amazonaws.com" + target, {}, "us-east-1"};
  request.headers["x-amz-content-sha256"] = kEmptyBody;
  request.headers["x-amz-date"] = "20130524T000000Z";
  return request;
}

TEST(SigV4, GetObjectOfTheReference) {
  SignedRequest request = example("/test.txt");
  request.headers["range"] = "bytes=0-9";
  EXPECT_EQ(canonical_request(request),
            "GET\n/test.txt\n\n"
            "host:examplebucket.s3.amazonaws.com\nrange:bytes=0-9\n"
            "x-amz-content-sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\n"
            "x-amz-date:20130524T000000Z\n\n"
            "host;range;x-amz-content-sha256;x-amz-date\n"
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256(canonical_request(request)).hex(),
            "7344ae5b7ee6c3e7e6b0fe0640412a37625d1fbfff95c48bbb2dc43964946972");
  EXPECT_EQ(authorization(request, kExample),
            "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, "
            "SignedHeaders=host;range;x-amz-content-sha256;x-amz-date, "
            "Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
}

TEST(SigV4, ParameterWithoutAValueOfTheReference) {
  EXPECT_THAT(authorization(example("/?lifecycle"), kExample),
              EndsWith("Signature=fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"));
}

TEST(SigV4, ListingOfTheReference) {
  constexpr const char* kEnd = "Signature=34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7";
  EXPECT_THAT(authorization(example("/?max-keys=2&prefix=J"), kExample), EndsWith(kEnd));
  EXPECT_THAT(authorization(example("?prefix=J&max-keys=2#fragment"), kExample), EndsWith(kEnd));
}

TEST(SigV4, GetVanillaOfTheTestSuite) {
  const SignedRequest request{
      "GET", "https://example.amazonaws.com/", {{"x-amz-date", "20150830T123600Z"}}, "us-east-1", "service"};
  EXPECT_EQ(authorization(request, {"AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", ""}),
            "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, "
            "SignedHeaders=host;x-amz-date, "
            "Signature=5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31");
}

TEST(SigV4, HostHasThePortUnlessItIsThatOfTheScheme) {
  const auto host_of = [](const std::string& url) {
    const std::string text = canonical_request({"GET", url, {}, "r"});
    const size_t begin = text.find("host:") + 5;
    return text.substr(begin, text.find('\n', begin) - begin);
  };
  EXPECT_EQ(host_of("http://127.0.0.1:9000/b/k"), "127.0.0.1:9000");
  EXPECT_EQ(host_of("https://store.example:443/b"), "store.example");
  EXPECT_EQ(host_of("http://store.example:443/b"), "store.example:443");
  EXPECT_EQ(host_of("http://store.example:80"), "store.example");
  EXPECT_EQ(host_of("http://[::1]:80/x"), "[::1]");
}

TEST(Signer, SignsEachRequestOnItsOwn) {
  Signer signer(keys(kExample), "eu-west-1");
  const auto first = signer.headers("GET", "https://a.example/x");
  EXPECT_THAT(first, SizeIs(3));
  EXPECT_THAT(first, Contains(AllOf(StartsWith("Authorization: AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/"),
                                    HasSubstr("/eu-west-1/s3/aws4_request, SignedHeaders=host;"))));
  EXPECT_NE(first.front(), signer.headers("HEAD", "https://a.example/x").front());
  EXPECT_NE(first.front(), signer.headers("GET", "https://a.example/y").front());
  EXPECT_THAT(first, Each(Not(HasSubstr(kExample.secret))));
  EXPECT_EQ(signer.authorization(), "");
}

TEST(Signer, TokenIsSigned) {
  Signer signer(keys(Keys{"AKIAIOSFODNN7EXAMPLE", "secret", "token"}), "r");
  const auto headers = signer.headers("GET", "https://a.example/x");
  EXPECT_THAT(headers, Contains("x-amz-security-token: token"));
  EXPECT_THAT(headers.front(), HasSubstr("x-amz-date;x-amz-security-token, "));
}

TEST(Signer, WithoutKeysNothingIsSent) {
  Signer signer(std::make_shared<UserKeys>(Settings()), "r");
  EXPECT_THAT(signer.headers("GET", "https://a.example/x"), IsEmpty());
  EXPECT_EQ(signer.description(), "tried anonymously");
}

TEST(Signer, PayerAndOwnerAreSentAndSigned) {
  Settings settings;
  settings.flags = {.requester_pays = true, .expected_owner = "123456789012"};
  Signer anonymous(std::make_shared<UserKeys>(settings), "r");
  EXPECT_THAT(
      anonymous.headers("GET", "https://a.example/x"),
      testing::UnorderedElementsAre("x-amz-request-payer: requester", "x-amz-expected-bucket-owner: 123456789012"));
  settings.keys = kExample;
  Signer signer(std::make_shared<UserKeys>(settings), "r");
  const auto headers = signer.headers("GET", "https://a.example/x");
  EXPECT_THAT(headers.front(), HasSubstr("x-amz-date;x-amz-expected-bucket-owner;x-amz-request-payer, "));
  EXPECT_THAT(headers, Contains("x-amz-request-payer: requester"));
}

TEST(Signer, DescriptionHasFourCharactersOfALongIdOnly) {
  EXPECT_EQ(Signer(keys(kExample), "r").description(), "tried with the access key ...MPLE");
  EXPECT_EQ(Signer(keys({"minioadmin", "x", ""}), "r").description(), "tried with the access key");
}

}  // namespace
}  // namespace weightfs::s3::s3_signature_test
