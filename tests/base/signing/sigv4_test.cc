// Vectors of the Signature Version 4 test suite, and the dates that a server reads.
#include "base/signing/sigv4.h"

#include <gtest/gtest.h>

namespace weightfs::sigv4_test {
namespace {

using namespace sigv4;

constexpr std::time_t kMay2013 = 1'369'353'600;  // 2013-05-24

TEST(SigV4Text, QueryIsSortedByNameThenValue) {
  EXPECT_EQ(canonical_query({{"b", "2"}, {"a-b", ""}, {"a", "2"}, {"a", "1"}}), "a=1&a=2&a-b=&b=2");
  EXPECT_EQ(canonical_query({}), "");
}

TEST(SigV4Text, GetVanillaQueryOrderKeyOfTheTestSuite) {
  CanonicalRequest request{"GET",
                           "/",
                           canonical_query({{"Param2", "value2"}, {"Param1", "value1"}}),
                           {{"host", "example.amazonaws.com"}, {"x-amz-date", "20150830T123600Z"}},
                           std::string(kEmptyBody)};
  EXPECT_EQ(signature("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "20150830T123600Z",
                      {"20150830", "us-east-1", "service"}, request),
            "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500");
}

TEST(SigV4Text, DatesAreOfOneForm) {
  EXPECT_EQ(amz_date(kMay2013), "20130524T000000Z");
  EXPECT_EQ(parse_amz_date("20130524T000000Z"), kMay2013);
  for (const char* const other : {"", "20130524", "20130524T000000", "2013524T000000Z", "20130524T000000Z ",
                                  " 20130524T000000Z", "20130532T000000Z", "20130524T250000Z", "Fri, 24 May 2013"})
    EXPECT_FALSE(parse_amz_date(other)) << other;
}

}  // namespace
}  // namespace weightfs::sigv4_test
