#include "fs/http/protocol/conditions.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "base/values/http.h"

namespace weightfs::conditions_test {
namespace {

using namespace httpd;

constexpr std::time_t kModified = 1'700'000'000;
constexpr std::time_t kNow = 1'800'000'000;
const Validators kValidators{"\"abc\"", kModified};

Verdict verdict(std::vector<Field> fields, const std::string& method = "GET") {
  Request request;
  request.method = method;
  request.fields = std::move(fields);
  return evaluate(request, kValidators, kNow);
}

std::string date(std::time_t time) { return http_date(time); }

// "a-b a-b", with the last byte excluded; "whole" or "none".
std::string ranges(std::string_view field, uint64_t size) {
  const Ranges found = ranges_of(field, size);
  if (!found.is_satisfiable) return "none";
  if (found.parts.empty()) return "whole";
  std::string text;
  for (const ByteRange& part : found.parts) text += fmt::format("{}{}-{}", text.empty() ? "" : " ", part.from, part.to);
  return text;
}

// RFC 9110, section 13.2.2, each row in the order of the evaluation.
TEST(Conditions, AreEvaluatedInOrder) {
  EXPECT_EQ(verdict({}), Verdict::whole);
  EXPECT_EQ(verdict({{"if-match", "\"abc\""}}), Verdict::whole);
  EXPECT_EQ(verdict({{"if-match", "*"}}), Verdict::whole);
  EXPECT_EQ(verdict({{"if-match", "\"x\", \"abc\""}}), Verdict::whole);
  EXPECT_EQ(verdict({{"if-match", "\"x\""}}), Verdict::failed);
  EXPECT_EQ(verdict({{"if-match", "W/\"abc\""}}), Verdict::failed) << "the comparison is strong";
  EXPECT_EQ(verdict({{"if-match", "\"abc\""}, {"if-unmodified-since", date(kModified - 1)}}), Verdict::whole)
      << "If-Unmodified-Since is ignored then";
  EXPECT_EQ(verdict({{"if-unmodified-since", date(kModified)}}), Verdict::whole);
  EXPECT_EQ(verdict({{"if-unmodified-since", date(kModified - 1)}}), Verdict::failed);
  EXPECT_EQ(verdict({{"if-none-match", "\"abc\""}}), Verdict::not_modified);
  EXPECT_EQ(verdict({{"if-none-match", "W/\"abc\""}}), Verdict::not_modified) << "the comparison is weak";
  EXPECT_EQ(verdict({{"if-none-match", "\"x\",  \"abc\""}}), Verdict::not_modified);
  EXPECT_EQ(verdict({{"if-none-match", "*"}}), Verdict::not_modified);
  EXPECT_EQ(verdict({{"if-none-match", "\"x\""}, {"if-modified-since", date(kModified)}}), Verdict::whole)
      << "If-Modified-Since is ignored then";
  EXPECT_EQ(verdict({{"if-modified-since", date(kModified)}}), Verdict::not_modified);
  EXPECT_EQ(verdict({{"if-modified-since", date(kModified - 1)}}), Verdict::whole);
  EXPECT_EQ(verdict({{"if-modified-since", date(kNow + 1)}}), Verdict::whole) << "a date in the future";
  EXPECT_EQ(verdict({{"if-modified-since", "yesterday"}}), Verdict::whole);
  EXPECT_EQ(verdict({{"if-match", "\"x\""}, {"if-none-match", "\"abc\""}}), Verdict::failed);
  EXPECT_EQ(verdict({{"if-none-match", "\"abc\""}, {"range", "bytes=0-0"}}), Verdict::not_modified);
}

TEST(Conditions, IfRangeNeedsTheSameBytes) {
  const auto with = [](const std::string& condition) {
    return verdict({{"range", "bytes=0-0"}, {"if-range", condition}});
  };
  EXPECT_EQ(verdict({{"range", "bytes=0-0"}}), Verdict::ranges);
  EXPECT_EQ(with("\"abc\""), Verdict::ranges);
  EXPECT_EQ(with("\"x\""), Verdict::whole);
  EXPECT_EQ(with("W/\"abc\""), Verdict::whole);
  EXPECT_EQ(with(date(kModified)), Verdict::ranges);
  EXPECT_EQ(with(date(kModified + 1)), Verdict::whole) << "exactly the date";
  EXPECT_EQ(with("nonsense"), Verdict::whole);
  EXPECT_EQ(verdict({{"if-range", "\"x\""}}), Verdict::whole);
  EXPECT_EQ(verdict({{"range", "bytes=0-0"}}, "HEAD"), Verdict::whole);
}

TEST(Conditions, BadListsMatchNothing) {
  for (const char* list : {"", "abc", "\"", "\"abc", "abc\"", ",,,", "W/", "\"\"", "\"ab\"c\""})
    EXPECT_EQ(verdict({{"if-none-match", list}}), Verdict::whole) << list;
}

TEST(Ranges, OfOnePart) {
  EXPECT_EQ(ranges("bytes=0-0", 10), "0-1");
  EXPECT_EQ(ranges("bytes=3-", 10), "3-10");
  EXPECT_EQ(ranges("bytes=-3", 10), "7-10");
  EXPECT_EQ(ranges("bytes=-30", 10), "0-10");
  EXPECT_EQ(ranges("bytes=5-99", 10), "5-10");
  EXPECT_EQ(ranges("BYTES = 1 - 2 ", 10), "1-3");
  EXPECT_EQ(ranges("bytes=0-99999999999999999999999", 10), "0-10");
}

TEST(Ranges, ThatAreInvalidAreIgnored) {
  for (const char* field : {"", "bytes", "bytes=", "bytes=,", "bytes=a-b", "bytes=5-4", "bytes=--1", "bytes=1-2-3",
                            "bytes=-", "bytes=1", "items=0-1", "bytes=0x1-2", "bytes=+1-2", "bytes=0-1,x"})
    EXPECT_EQ(ranges(field, 10), "whole") << field;
}

TEST(Ranges, BeyondTheEndCannotBeSatisfied) {
  for (const char* field : {"bytes=10-", "bytes=10-20", "bytes=-0", "bytes=99999999999999999999-", "bytes=11-, -0"})
    EXPECT_EQ(ranges(field, 10), "none") << field;
  EXPECT_EQ(ranges("bytes=10-20, 0-0", 10), "0-1") << "one can be";
  EXPECT_EQ(ranges("bytes=0-0", 0), "whole") << "an empty file";
}

TEST(Ranges, OfSeveralPartsKeepTheirOrderAndAreJoined) {
  EXPECT_EQ(ranges("bytes=5-6, 0-1", 10), "5-7 0-2");
  EXPECT_EQ(ranges("bytes=0-1,2-3", 10), "0-4") << "they touch";
  EXPECT_EQ(ranges("bytes=0-1, 6-7, 2-5", 10), "0-8") << "the last joins both";
  EXPECT_EQ(ranges("bytes=0-4,2-3,1-7,9-9", 10), "0-8 9-10");
  EXPECT_EQ(ranges("bytes=8-9,0-0,4-4,0-9", 10), "0-10");
}

TEST(Ranges, OfTooManyPartsAreTheWholeFile) {
  std::string apart = "bytes=", joined = "bytes=0-0";
  for (size_t i = 0; i < kMaxParts; ++i) apart += fmt::format("{}{}-{}", i == 0 ? "" : ",", 2 * i, 2 * i);
  EXPECT_EQ(ranges_of(apart, 1000).parts.size(), kMaxParts);
  EXPECT_EQ(ranges(apart + ",900-900", 1000), "whole");
  for (int i = 0; i < 1000; ++i) joined += ",0-0";
  EXPECT_EQ(ranges(joined, 1000), "whole");
}

TEST(HttpDate, HasThreeForms) {
  for (const char* text :
       {"Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"})
    EXPECT_EQ(parse_http_date(text), 784111777) << text;
  EXPECT_EQ(http_date(784111777), "Sun, 06 Nov 1994 08:49:37 GMT");
  for (const char* text : {"", "now", "Sun, 06 Nov 1994 08:49:37 GMT+1", "784111777"})
    EXPECT_EQ(parse_http_date(text), std::nullopt) << text;
}

}  // namespace
}  // namespace weightfs::conditions_test
