#include "base/values/base64.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace weightfs::base64_test {
namespace {

// RFC 4648, section 10.
TEST(Base64, MatchesTestVectorsInBothDirections) {
  const std::vector<std::pair<std::string, std::string>> known = {{"", ""},
                                                                  {"f", "Zg=="},
                                                                  {"fo", "Zm8="},
                                                                  {"foo", "Zm9v"},
                                                                  {"foob", "Zm9vYg=="},
                                                                  {"fooba", "Zm9vYmE="},
                                                                  {"foobar", "Zm9vYmFy"},
                                                                  {{"\xFB\xFF\xFE\0\1", 5}, "+//+AAE="}};
  for (const auto& [bytes, text] : known) {
    EXPECT_EQ(base64(bytes), text);
    EXPECT_EQ(from_base64(text), bytes);
  }
}

TEST(Base64, ForUrlsHasNoPaddingAndNoSlash) {
  EXPECT_EQ(base64url({"\xFB\xFF\xFE\0\1", 5}), "-__-AAE");
  EXPECT_EQ(base64url("f"), "Zg");
}

TEST(Base64, InvalidTextIsRefused) {
  for (const char* text : {"Zg", "Zg=", "Z===", "====", "Zh==", "Zm9=", "Zg==Zg==", "Zm 9", "Zm9v\n", "-__-"})
    EXPECT_EQ(from_base64(text), std::nullopt) << text;
}

}  // namespace
}  // namespace weightfs::base64_test
