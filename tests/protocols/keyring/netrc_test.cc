#include "protocols/netrc.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>

#include "tests/support/temporary.h"

namespace weightfs::test::netrc_test {
namespace {

using testing::EndsWith;

std::string describe(const std::string& text, const std::string& host = "h.example") {
  const auto login = netrc::find_login(text, host);
  return login ? login->user + ":" + login->password : "none";
}

TEST(Netrc, LoginIsThatOfTheHost) {
  const std::string text =
      "machine other.example login x password y\n"
      "machine H.example\n\tlogin me\n\taccount a\n\tpassword s3cret\n"
      "machine h.example login second password z\n";
  EXPECT_EQ(describe(text), "me:s3cret");
  EXPECT_EQ(describe(text, "OTHER.example"), "x:y");
  for (const char* const host : {"example", "my.h.example", "h.example.org", ""})
    EXPECT_EQ(describe(text, host), "none");
  EXPECT_EQ(describe("machine h.example password p login u"), "u:p");
  EXPECT_EQ(describe("machine h.example login u"), "u:");
}

// It would be sent to any server.
TEST(Netrc, DefaultIsIgnored) {
  EXPECT_EQ(describe("default login me password s"), "none");
  EXPECT_EQ(describe("machine h.example login u password p default login me password s"), "u:p");
  EXPECT_EQ(describe("machine h.example default login me password s"), "none");
}

TEST(Netrc, QuotesCommentsAndMacros) {
  EXPECT_EQ(describe("machine h.example login \"a b\" password \"q\\\"\\\\\\n#\""), "a b:q\"\\\n#");
  EXPECT_EQ(describe("# machine h.example login no password no\nmachine h.example login u password #p"), "u:#p");
  EXPECT_EQ(describe("macdef init\nmachine h.example login no password no\n\nmachine h.example login u password p"),
            "u:p");
  EXPECT_EQ(describe("macdef init\nmachine h.example login no password no"), "none");
}

TEST(Netrc, DamagedFilesHaveNoLogin) {
  for (const char* const text : {"", "machine", "machine h.example", "machine h.example login", "h.example login u",
                                 "machine h.example login \"", "\"", "machine h.example password p"})
    EXPECT_EQ(describe(text), "none") << text;
}

class NetrcFile : public testing::Test {
 protected:
  NetrcFile() {
    ::setenv("NETRC", file.c_str(), 1);
    ::chmod(file.c_str(), 0600);
  }
  ~NetrcFile() override { ::unsetenv("NETRC"); }

  TemporaryDirectory temporary;
  const std::string file = temporary.write("netrc", "machine h.example login me password secret");
};

TEST_F(NetrcFile, IsUsedForTheHostOverHttps) {
  const auto found = netrc::credentials_for("https://h.example:8443/dir/m.gguf");
  EXPECT_EQ(found->authorization(), "Basic bWU6c2VjcmV0");
  EXPECT_EQ(found->description(), "as \"me\" of " + file);
  EXPECT_EQ(found->key_origin().from, file);
  EXPECT_EQ(netrc::credentials_for("http://h.example/m")->authorization(), "");
  const auto other = netrc::credentials_for("https://other.example/m");
  EXPECT_EQ(other->authorization(), "");
  EXPECT_EQ(other->key_origin().from, "");
  EXPECT_EQ(other->description(), "without a login: " + file + " has none for other.example");
}

TEST_F(NetrcFile, IsNotUsedIfOthersMayReadIt) {
  for (const mode_t mode : {0640U, 0604U, 0620U}) {
    ::chmod(file.c_str(), mode);
    const auto found = netrc::credentials_for("https://h.example/m");
    EXPECT_EQ(found->authorization(), "") << mode;
    EXPECT_THAT(found->description(), EndsWith("netrc is not used: others have access to it; chmod 600")) << mode;
  }
  ::setenv("NETRC", temporary.path("absent").c_str(), 1);
  EXPECT_THAT(netrc::credentials_for("https://h.example/m")->description(), EndsWith("absent does not exist"));
  ::setenv("NETRC", temporary.path("").c_str(), 1);
  EXPECT_EQ(netrc::credentials_for("https://h.example/m")->authorization(), "");
}

}  // namespace
}  // namespace weightfs::test::netrc_test
