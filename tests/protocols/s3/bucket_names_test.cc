// Names of buckets, and the hosts of Amazon that have them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "protocols/s3.h"

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
