#include "cache/download/response.h"

#include <gtest/gtest.h>

#include <chrono>

namespace weightfs {
namespace {

using namespace download;

TEST(Response, ContentRangeIsParsedStrictly) {
  const auto range = parse_content_range("bytes 1-2/3");
  ASSERT_TRUE(range);
  EXPECT_EQ(range->first, 1u);
  EXPECT_EQ(range->last, 2u);
  EXPECT_EQ(range->total, 3u);
  EXPECT_EQ(parse_content_range("bytes 1-2/*")->total, std::nullopt);
  EXPECT_EQ(parse_content_range("bytes */9")->total, 9u);
  for (const char* text :
       {"", "bytes", "bytes 1-2", "bytes 2-1/3", "bytes 1-3/3", "bytes */*", "bytes -1/3", "bytes 1-/3", "bytes 1-2/",
        "bytes a-b/c", "bytes 0-18446744073709551615/*", "items 0-1/2", "bytes 1-2/3x"})
    EXPECT_FALSE(parse_content_range(text)) << text;
}

// RFC 9110, section 10.2.3
TEST(Response, RetryAfterIsSecondsOrDate) {
  const auto now = std::chrono::system_clock::from_time_t(784111777);  // Sun, 06 Nov 1994 08:49:37 GMT
  using std::chrono::seconds;
  EXPECT_EQ(parse_retry_after("120", now), seconds(120));
  EXPECT_EQ(parse_retry_after("Sun, 06 Nov 1994 08:50:37 GMT", now), seconds(60));
  EXPECT_EQ(parse_retry_after("Sun, 06 Nov 1994 08:48:37 GMT", now), seconds(0));
  EXPECT_EQ(parse_retry_after("99999999999", now), seconds(86400));
  EXPECT_EQ(parse_retry_after("Sun, 06 Nov 2994 08:50:37 GMT", now), seconds(86400));
  for (const char* text : {"", "-1", "soon", "1.5", "06 Nov 1994"})
    EXPECT_EQ(parse_retry_after(text, now), std::nullopt);
}

}  // namespace
}  // namespace weightfs
