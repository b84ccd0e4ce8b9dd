// Requests that AWS published with their signatures ("Examples: Signature Calculations", "Authenticating Requests:
// Using Query Parameters"), as a server verifies them, and what is refused.
#include "serve/s3/access.h"

#include <gtest/gtest.h>

namespace weightfs::s3_access_test {
namespace {

using httpd::Request;
using objects::AccessKeys;

constexpr std::time_t kSigned = 1'369'353'600;  // 20130524T000000Z
const char* const kEmpty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
const char* const kListing = "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7";
const AccessKeys kKeys = {{"AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"}};

std::string authorization(const std::string& signature,
                          const std::string& names = "host;x-amz-content-sha256;x-amz-date",
                          const std::string& credential = "AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request") {
  return "AWS4-HMAC-SHA256 Credential=" + credential + ", SignedHeaders=" + names + ",Signature=" + signature;
}

Request request(const std::string& target, const std::string& authorization) {
  Request out;
  out.method = "GET";
  out.target = target;
  out.fields = {{"host", "examplebucket.s3.amazonaws.com"},
                {"x-amz-content-sha256", kEmpty},
                {"x-amz-date", "20130524T000000Z"},
                {"authorization", authorization}};
  return out;
}

Request listing(const std::string& target = "/?max-keys=2&prefix=J") {
  return request(target, authorization(kListing));
}

// The code of the denial; empty if the request is permitted.
std::string denial(const Request& request, std::time_t now = kSigned, const AccessKeys& keys = kKeys) {
  const auto denied = objects::check_signature(keys, request, now);
  return denied ? denied->code : "";
}

std::string presigned(const std::string& expires = "86400") {
  return "/test.txt?X-Amz-Algorithm=AWS4-HMAC-SHA256"
         "&X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20130524%2Fus-east-1%2Fs3%2Faws4_request&X-Amz-Date=20130524T000000Z"
         "&X-Amz-Expires=" +
         expires +
         "&X-Amz-SignedHeaders=host"
         "&X-Amz-Signature=aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404";
}

Request of_presigned(const std::string& target) {
  Request out;
  out.method = "GET";
  out.target = target;
  out.fields = {{"host", "examplebucket.s3.amazonaws.com"}};
  return out;
}

TEST(S3Access, ListingOfTheReference) {
  EXPECT_EQ(denial(listing()), "");
  EXPECT_EQ(denial(listing("/?prefix=%4A&max-keys=2")), "") << "the order and the escapes are those of the client";
  EXPECT_EQ(denial(listing("/?prefix=J&max-keys=3")), "SignatureDoesNotMatch");
  EXPECT_EQ(denial(listing("/x?max-keys=2&prefix=J")), "SignatureDoesNotMatch");
  EXPECT_EQ(denial(listing("/?max-keys=2&prefix=J&prefix=K")), "SignatureDoesNotMatch");
  Request head = listing();
  head.method = "HEAD";
  EXPECT_EQ(denial(head), "SignatureDoesNotMatch");
}

TEST(S3Access, ObjectOfTheReference) {
  Request get = request("/test.txt", authorization("f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
                                                   "host;range;x-amz-content-sha256;x-amz-date"));
  EXPECT_EQ(denial(get), "SignatureDoesNotMatch") << "a signed field is missing";
  get.fields.push_back({"range", "  bytes=0-9 "});
  EXPECT_EQ(denial(get), "");
}

TEST(S3Access, ParameterWithoutAValueOfTheReference) {
  EXPECT_EQ(
      denial(request("/?lifecycle", authorization("fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"))),
      "");
}

TEST(S3Access, PresignedUrlOfTheReference) {
  EXPECT_EQ(denial(of_presigned(presigned())), "");
  EXPECT_EQ(denial(of_presigned(presigned()), kSigned + 86'400), "");
  EXPECT_EQ(denial(of_presigned(presigned()), kSigned + 86'401), "AccessDenied");
  EXPECT_EQ(denial(of_presigned(presigned()), kSigned - 901), "RequestTimeTooSkewed");
  EXPECT_EQ(denial(of_presigned(presigned("86401"))), "SignatureDoesNotMatch");
  for (const char* const other : {"0", "-1", "604801", "", "x"})
    EXPECT_EQ(denial(of_presigned(presigned(other))), "AuthorizationQueryParametersError") << other;
  EXPECT_EQ(denial(of_presigned(presigned() + "&response-content-type=text%2Fhtml")), "SignatureDoesNotMatch");
  EXPECT_EQ(denial(of_presigned(presigned() + "&x=%2")), "SignatureDoesNotMatch") << "an invalid escape";
}

// What is served is what was signed: the first of two values, and a path as it was sent.
TEST(S3Access, SecondValuesAndOtherFormsOfThePathAreNotSigned) {
  for (const std::string& target : {presigned() + "&X-Amz-Expires=604800", presigned() + "&X-Amz-Date=20990101T000000Z",
                                    "/a/.." + presigned(), "/" + presigned(), "/." + presigned()})
    EXPECT_EQ(denial(of_presigned(target)), "SignatureDoesNotMatch") << target;
  Request head = of_presigned(presigned());
  head.method = "HEAD";
  EXPECT_EQ(denial(head), "SignatureDoesNotMatch");
  for (const char* const name : {"host", "x-amz-date", "x-amz-content-sha256"}) {
    Request twice = listing();
    twice.fields.push_back({name, "other"});
    EXPECT_EQ(denial(twice), "SignatureDoesNotMatch") << name;
  }
}

TEST(S3Access, ClockMayDifferByAQuarterOfAnHour) {
  for (const std::time_t skew : {-900, 900}) EXPECT_EQ(denial(listing(), kSigned + skew), "") << skew;
  for (const std::time_t skew : {-901, 901})
    EXPECT_EQ(denial(listing(), kSigned + skew), "RequestTimeTooSkewed") << skew;
}

TEST(S3Access, KeysOfOthersAreRefused) {
  EXPECT_EQ(denial(listing(), kSigned, {{"OTHER", "secret"}}), "InvalidAccessKeyId");
  EXPECT_EQ(denial(listing(), kSigned, {{"AKIAIOSFODNN7EXAMPLE", "secret"}}), "SignatureDoesNotMatch");
}

TEST(S3Access, RequestsWithoutASignatureAreDenied) {
  Request anonymous = listing();
  anonymous.fields.pop_back();
  EXPECT_EQ(denial(anonymous), "AccessDenied");
  EXPECT_EQ(denial(request("/", "Bearer token")), "AccessDenied");
  EXPECT_EQ(denial(request("/", "AWS AKIAIOSFODNN7EXAMPLE:c2ln")), "InvalidRequest");
}

TEST(S3Access, MalformedHeadersAreRefused) {
  const std::string names = "host;x-amz-content-sha256;x-amz-date";
  for (const std::string& field :
       {std::string("AWS4-HMAC-SHA256 "), std::string("AWS4-HMAC-SHA256 Credential=,SignedHeaders=,Signature="),
        authorization("x", ""), authorization("x", "x-amz-date;host"), authorization("x", "host;host"),
        authorization("", names), authorization("x", names, "id/20130524/us-east-1/s3"),
        authorization("x", names, "/20130524/us-east-1/s3/aws4_request"),
        authorization("x", names, "id/20130524/us-east-1/sts/aws4_request"),
        authorization("x", names, std::string(200, 'i') + "/20130524/r/s3/aws4_request")})
    EXPECT_EQ(denial(request("/", field)), "AuthorizationHeaderMalformed") << field;
  EXPECT_EQ(denial(request("/", authorization("x", names, "id/20130525/us-east-1/s3/aws4_request"))), "AccessDenied")
      << "the day of the credential is another one";
}

TEST(S3Access, FieldsOfAmazonMustBeSigned) {
  Request more = listing();
  more.fields.push_back({"x-amz-request-payer", "requester"});
  EXPECT_EQ(denial(more), "AccessDenied");
  EXPECT_EQ(denial(request("/?max-keys=2&prefix=J", authorization(kListing, "x-amz-content-sha256;x-amz-date"))),
            "AccessDenied")
      << "without host";
  Request body = listing();
  body.fields[1].value = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD";
  EXPECT_EQ(denial(body), "XAmzContentSHA256Mismatch");
}

TEST(S3Access, KeysAreLinesOfTwoWords) {
  const auto keys = objects::parse_access_keys("# of a team\n\nAK one\r\n  BK\ttwo/+=  \n");
  EXPECT_EQ(*keys, (AccessKeys{{"AK", "one"}, {"BK", "two/+="}}));
  for (const char* const wrong : {"", "# only\n", "AK\n", "AK one two\n", "A/K one\n", "AK one\nAK two\n", "AK \xFF\n"})
    EXPECT_FALSE(objects::parse_access_keys(wrong)) << wrong;
  const auto failed = objects::parse_access_keys("AK one\nthe secret line\n");
  EXPECT_EQ(failed.error().message, "line 2: not ACCESS_KEY SECRET") << "the line is not quoted";
}

}  // namespace
}  // namespace weightfs::s3_access_test
