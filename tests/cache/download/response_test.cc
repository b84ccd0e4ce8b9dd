#include "cache/download/response.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "base/values/base64.h"

namespace weightfs::response_test {
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

// As the Hugging Face Hub sends it, with status 429.
TEST(Response, RateLimitHasTheSecondsUntilItIsReset) {
  using std::chrono::seconds;
  EXPECT_EQ(parse_rate_limit("\"resolvers\";r=0;t=55"), seconds(55));
  EXPECT_EQ(parse_rate_limit("\"api\"; t=7; r=0"), seconds(7));
  EXPECT_EQ(parse_rate_limit("\"api\";t=99999999"), seconds(86400));
  for (const char* text : {"", "t=5", "\"api\";r=0", "\"api\";t=", "\"api\";t=x", "\"api\";t=-1", ";", "\"api\";tt=5"})
    EXPECT_EQ(parse_rate_limit(text), std::nullopt) << text;
  const auto delay = [](int status, std::vector<std::pair<std::string, std::string>> headers) {
    return requested_delay({.status = status, .headers = std::move(headers), .url = "http://h/"});
  };
  const std::pair<std::string, std::string> limit("ratelimit", "\"api\";r=0;t=55");
  EXPECT_EQ(delay(429, {limit}), seconds(55));
  EXPECT_EQ(delay(429, {limit, {"retry-after", "3"}}), seconds(3));
  EXPECT_EQ(delay(503, {limit}), std::nullopt);
}

TEST(Response, MessageOfTheServerIsPartOfTheError) {
  const auto message = [](const std::string& sent) {
    return outcome_of({.status = 403, .headers = {{"x-error-message", sent}}, .url = "http://h/x?secret"})
        .error.message;
  };
  EXPECT_EQ(message("Access is\x1b restricted."), "http://h/x: 403 Forbidden, Access is\\x1b restricted.");
  EXPECT_LT(message(std::string(9000, 'x')).size(), 400u);
  EXPECT_EQ(message("no access with Bearer hf_x to https://h/m?X-Amz-Signature=0a1b, token hf_0123456789abcdefgh"),
            "http://h/x: 403 Forbidden, no access with Bearer ... to https://h/m token ...")
      << "a server may repeat what it was sent";
}

// semantics 14.6
TEST(Response, MissingSizeHasItsReason) {
  using Headers = std::vector<std::pair<std::string, std::string>>;
  const auto why = [](int status, Headers headers) {
    return why_no_size({.status = status, .headers = std::move(headers), .url = "http://h/"});
  };
  EXPECT_EQ(why(200, {}), "200 OK without a content-length");
  EXPECT_EQ(why(200, {{"content-length", "12x"}}), "200 OK with content-length \"12x\", which is not valid");
  EXPECT_EQ(why(200, {{"transfer-encoding", "chunked"}}),
            "200 OK without a content-length (transfer-encoding \"chunked\")");
  EXPECT_EQ(why(200, {{"content-encoding", "gzip"}, {"content-length", "5"}}),
            "the server sends the file with the encoding \"gzip\", without its size");
  EXPECT_EQ(why(200, {{"content-encoding", "aws-chunked"}}), "200 OK without a content-length");
  EXPECT_EQ(why(206, {}), "206 Partial Content without a content-range");
  EXPECT_EQ(why(206, {{"content-range", "items 0-1/2"}}),
            "206 Partial Content with content-range \"items 0-1/2\", which is not valid");
  EXPECT_EQ(why(206, {{"content-range", "bytes 0-1/*"}}),
            "206 Partial Content with content-range \"bytes 0-1/*\", without the size of the file");
  EXPECT_EQ(why(206, {{"content-range", "bytes */9"}}),
            "206 Partial Content with content-range \"bytes */9\", without a range");
  EXPECT_EQ(why(206, {{"content-range", "bytes 5-6/9"}}),
            "206 Partial Content with content-range \"bytes 5-6/9\", instead of the first bytes");
  for (const int status : {201, 202, 203, 204, 205})
    EXPECT_EQ(why(status, {}).find(std::to_string(status)) != std::string::npos, true) << why(status, {});
  EXPECT_EQ(why(204, {}), "204 No Content is not an answer with a file");
  EXPECT_EQ(why(200, {{"content-type", "Text/HTML; charset=utf-8"}, {"transfer-encoding", "chunked"}}),
            "the server sent a web page (text/html)");
}

// RFC 9530, appendix B
TEST(Response, StatedDigestIsThatOfSha256) {
  const auto stated = [](const std::string& field, const std::string& coding = "") {
    const auto digest =
        stated_digest({.status = 206, .headers = {{"repr-digest", field}, {"content-encoding", coding}}, .url = ""});
    return digest ? digest->hex().substr(0, 8) : "none";
  };
  const std::string digest = "sha-256=:" + base64(std::string(31, 'a') + "b") + ":";
  EXPECT_EQ(stated(digest), "61616161");
  EXPECT_EQ(stated("sha-512=:AA==:, unixsum=1 ,  " + digest), "61616161");
  EXPECT_EQ(stated(digest, "aws-chunked"), "61616161");
  EXPECT_EQ(stated(digest, "gzip"), "none");
  for (const char* wrong :
       {"", "sha-256", "sha-256=:", "sha-256=::", "sha-256=:AA==:", "sha-256=:?:", "md5=:AA==:", ","})
    EXPECT_EQ(stated(wrong), "none") << wrong;
}

TEST(Response, LoginIsNamedWithoutCredentials) {
  const http::Response login{.status = 401, .headers = {}, .url = "http://h/x"};
  EXPECT_EQ(outcome_of(login).error.message, "http://h/x: the server asks for a login (401)");
  EXPECT_EQ(outcome_of(login).error.code, Code::forbidden);
  http::FixedCredentials credentials("Bearer x", "as me");
  EXPECT_EQ(outcome_of(login, &credentials).error.message, "http://h/x: 401 Unauthorized (as me)");
}

}  // namespace
}  // namespace weightfs::response_test
