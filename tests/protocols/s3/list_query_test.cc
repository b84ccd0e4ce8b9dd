// The queries of listings, also for stores that have only the first version of them.
#include "protocols/s3/list_query.h"

#include <gtest/gtest.h>

namespace weightfs::s3::list_query_test {
namespace {

TEST(ListQuery, SecondVersionContinuesWithItsToken) {
  ListPosition at;
  EXPECT_EQ(at.query("a b/"), "?encoding-type=url&list-type=2&max-keys=1000&prefix=a%20b%2F");
  at.move_behind({.objects = {{.key = "a b/1"}}, .is_truncated = true, .next = "t+/="});
  EXPECT_EQ(at.query("a b/"),
            "?continuation-token=t%2B%2F%3D&encoding-type=url&list-type=2&max-keys=1000&prefix=a%20b%2F");
}

// A store that ignores list-type=2 states no token.
TEST(ListQuery, FirstVersionContinuesAfterTheLastKey) {
  ListPosition at;
  at.move_behind({.objects = {{.key = "p/1"}, {.key = "p/2 3"}}, .is_truncated = true, .next = ""});
  EXPECT_TRUE(at.is_v1);
  EXPECT_EQ(at.query("p/"), "?encoding-type=url&marker=p%2F2%203&max-keys=1000&prefix=p%2F");
  at.move_behind({.objects = {{.key = "p/4"}}, .is_truncated = true, .next = "ignored"});
  EXPECT_EQ(at.after, "p/4");
  at.move_behind({.objects = {}, .is_truncated = true, .next = ""});
  EXPECT_EQ(at.after, "") << "nothing says what follows";
}

TEST(ListQuery, OnlyRefusalsOfTheVersionAreRepeated) {
  const auto refuses = [](int status, const std::string& code) {
    download::Response response;
    response.head.status = status;
    response.body = "<Error><Code>" + code + "</Code></Error>";
    return refuses_v2(response);
  };
  EXPECT_TRUE(refuses(405, "MethodNotAllowed"));
  EXPECT_TRUE(refuses(501, "NotImplemented"));
  EXPECT_TRUE(refuses(400, "InvalidArgument"));
  for (const int status : {200, 401, 403, 404, 500}) EXPECT_FALSE(refuses(status, "InvalidArgument")) << status;
  EXPECT_FALSE(refuses(400, "ExpiredToken"));
}

}  // namespace
}  // namespace weightfs::s3::list_query_test
