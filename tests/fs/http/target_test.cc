#include "fs/http/protocol/target.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace weightfs::target_test {
namespace {

using namespace httpd;
using testing::ElementsAre;
using testing::IsEmpty;

int status_of(std::string_view target) {
  const auto parsed = parse_target(target);
  return parsed ? 200 : parsed.error().status;
}

TEST(Target, IsSplitBeforeItIsDecoded) {
  const auto target = parse_target("/tensors/a%2Fb/%41%zz").error();
  EXPECT_EQ(target.status, 400);
  const auto found = parse_target("/tensors/a%2Fb/%41+c?x=1&y").value();
  EXPECT_THAT(found.segments, ElementsAre("tensors", "a/b", "A+c"));
  EXPECT_EQ(found.path, "/tensors/a%2Fb/%41+c");
  EXPECT_EQ(found.query, "x=1&y");
  EXPECT_FALSE(found.is_directory);
}

TEST(Target, DotSegmentsAreRemovedBeforeDecoding) {
  EXPECT_THAT(parse_target("/a/./b/../c//d/").value().segments, ElementsAre("a", "c", "d"));
  EXPECT_THAT(parse_target("/../../etc/passwd").value().segments, ElementsAre("etc", "passwd"));
  EXPECT_TRUE(parse_target("/a/..").value().is_directory);
  EXPECT_THAT(parse_target("/a/..").value().segments, IsEmpty());
}

TEST(Target, HostileSegmentsAreRefused) {
  for (const char* target : {"/%2e%2e/x", "/a/%2E%2e", "/%2e", "/a%00b", "/%", "/%1", "/%g0", "/a#b"})
    EXPECT_EQ(status_of(target), 400) << target;
}

TEST(Target, AbsoluteFormNamesTheServer) {
  const auto target = parse_target("http://[::1]:8421/a?q").value();
  EXPECT_EQ(target.authority, "[::1]:8421");
  EXPECT_THAT(target.segments, ElementsAre("a"));
  EXPECT_TRUE(parse_target("http://localhost").value().is_directory);
  for (const char* wrong : {"ftp://localhost/", "http:///a", "a/b", "*", "", "://x/"})
    EXPECT_EQ(status_of(wrong), 400) << wrong;
}

TEST(Target, ParametersAreDecoded) {
  EXPECT_EQ(parameter("q=a+b%2B&limit=5", "q"), "a b+");
  EXPECT_EQ(parameter("q=a&limit=5", "limit"), "5");
  EXPECT_EQ(parameter("q&limit=5", "q"), "");
  EXPECT_EQ(parameter("q=%zz", "q"), std::nullopt);
  EXPECT_EQ(parameter("", "q"), std::nullopt);
}

TEST(Target, SegmentsOfAnyNameAreParsedBack) {
  std::string name;
  for (int c = 1; c < 256; ++c) name += static_cast<char>(c);
  EXPECT_THAT(parse_target("/" + url_segment(name)).value().segments, ElementsAre(name));
}

}  // namespace
}  // namespace weightfs::target_test
