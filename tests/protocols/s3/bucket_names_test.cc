// Names of buckets, and the hosts of Amazon that have them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "protocols/s3.h"
#include "protocols/s3/bucket_url.h"

namespace weightfs::s3::s3_bucket_names_test {
namespace {

using testing::HasSubstr;

TEST(BucketHosts, EveryHostOfAmazonIsOfItsBucketAndRegion) {
  for (const std::string host : {"s3", "s3-fips", "s3.dualstack", "s3-fips.dualstack"}) {
    const std::string url = "https://models." + host + ".us-gov-west-1.amazonaws.com/llama/x";
    EXPECT_EQ(region_of(url, "models"), "us-gov-west-1") << url;
    EXPECT_TRUE(is_of_bucket(url, "models", "", "llama/")) << url;
    EXPECT_FALSE(is_of_bucket(url, "models", "", "other/")) << url;
    EXPECT_FALSE(is_of_bucket(url, "other", "", "llama/")) << url;
    const std::string in_path = "https://" + host + ".eu-west-1.amazonaws.com/my.models/llama/x";
    EXPECT_TRUE(is_of_bucket(in_path, "my.models", "", "llama/")) << in_path;
  }
  for (const char* const url :
       {"https://models.s3-evil.eu-west-1.amazonaws.com/llama/x",
        "https://models.s3.eu-west-1.amazonaws.com.evil/llama/x", "https://models.s3.evil.example/llama/x",
        "http://models.s3.eu-west-1.amazonaws.com/llama/x"})
    EXPECT_FALSE(is_of_bucket(url, "models", "", "llama/")) << url;
}

TEST(BucketHosts, NameIsWhereTheProfileSays) {
  const auto url = [](const std::string& bucket, const std::string& endpoint, Addressing addressing) {
    return url_of(bucket, endpoint, "s3", "eu-west-1", addressing);
  };
  EXPECT_EQ(url("models", "https://oss.example:9000/", Addressing::automatic), "https://oss.example:9000/models");
  EXPECT_EQ(url("models", "https://oss.example:9000/", Addressing::host), "https://models.oss.example:9000");
  EXPECT_EQ(url("my.models", "https://oss.example", Addressing::host), "https://oss.example/my.models");
  EXPECT_EQ(url("models", "http://127.0.0.1:9000", Addressing::host), "http://127.0.0.1:9000/models");
  EXPECT_EQ(url("models", "http://[::1]:9000", Addressing::host), "http://[::1]:9000/models");
  EXPECT_EQ(url("models", "", Addressing::automatic), "https://models.s3.eu-west-1.amazonaws.com");
  EXPECT_EQ(url("models", "", Addressing::path), "https://s3.eu-west-1.amazonaws.com/models");
}

TEST(BucketHosts, BothPlacesOfTheNameAreOfTheBucket) {
  const std::string endpoint = "https://oss.example";
  for (const char* const below : {"https://oss.example/models/", "https://models.oss.example/"}) {
    EXPECT_TRUE(is_of_bucket(std::string(below) + "llama/x", "models", endpoint, "llama/")) << below;
    EXPECT_FALSE(is_of_bucket(std::string(below) + "other/x", "models", endpoint, "llama/")) << below;
  }
  EXPECT_TRUE(is_of_bucket("https://s3.eu-west-1.amazonaws.com/models/llama/x", "models", "", "llama/"));
  for (const char* const url : {"https://other.oss.example/llama/x", "https://models.oss.example.evil/llama/x",
                                "http://models.oss.example/llama/x"})
    EXPECT_FALSE(is_of_bucket(url, "models", endpoint, "llama/")) << url;
}

TEST(BucketHosts, ListsOfBothVersionsAreOfTheBucket) {
  const std::string list = "https://oss.example/models/?";
  const auto is_list = [&](const std::string& query) {
    return is_of_bucket(list + query, "models", "https://oss.example", "llama/");
  };
  EXPECT_TRUE(is_list("encoding-type=url&list-type=2&max-keys=1000&prefix=llama%2F"));
  EXPECT_TRUE(is_list("encoding-type=url&marker=llama%2Fx&max-keys=1000&prefix=llama%2F"));
  for (const char* const other : {"", "acl", "encoding-type=url&max-keys=1000", "list-type=3&prefix=llama%2F",
                                  "prefix=other%2F", "prefix=llama%2F&policy", "prefix=llama%2F&prefix=other%2F"})
    EXPECT_FALSE(is_list(other)) << other;
}

TEST(BucketNames, NamesThatNeedAnotherProtocolAreRefused) {
  const auto error = [](const std::string& name, const std::string& endpoint = "") {
    const auto opened = Bucket::open(name, {.endpoint = endpoint}, nullptr, nullptr);
    return opened ? "" : opened.error().message;
  };
  EXPECT_THAT(error("arn:aws:s3:eu-west-1:123456789012:accesspoint"), HasSubstr("use the alias of the access point"));
  EXPECT_THAT(error("mfzwi23gnjvgw.mrap"), HasSubstr("SigV4A"));
  EXPECT_THAT(error("models--use1-az4--x-s3"), HasSubstr("S3 Express One Zone"));
  EXPECT_THAT(error("arn:aws:s3", "https://store.example"), HasSubstr("not a valid bucket name"));
}

}  // namespace
}  // namespace weightfs::s3::s3_bucket_names_test
