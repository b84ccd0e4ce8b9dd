// The headers of --header-file: what is permitted, and when the file is read again.
#include "protocols/keyring/header_file.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <memory>
#include <stop_token>
#include <string>

#include "protocols/keyring.h"
#include "tests/support/temporary.h"

namespace weightfs::test::header_file_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using Clock = std::chrono::steady_clock;

std::string refusal(std::string_view text) {
  const auto headers = header_file::parse(text);
  return headers ? "none" : headers.error().message;
}

TEST(HeaderFile, HasAHeaderInEachLine) {
  const auto headers = header_file::parse("# a key\nX-JFrog-Art-Api:  a key \n\nPRIVATE-TOKEN: glpat=1:2");
  ASSERT_TRUE(headers);
  EXPECT_THAT(*headers, ElementsAre("X-JFrog-Art-Api: a key", "PRIVATE-TOKEN: glpat=1:2"));
}

TEST(HeaderFile, HeadersThatRequestsSetAreRefused) {
  for (const char* const name :
       {"Host", "content-length", "RANGE", "If-Range", "If-Match", "Transfer-Encoding", "Connection", "TE", "Upgrade",
        "Accept-Encoding", "Proxy-Authorization", "Proxy-Connection", "Keep-Alive", "Expect", "Trailer"})
    EXPECT_THAT(refusal(fmt::format("X: y\n{}: secret", name)), HasSubstr("line 2: the header ")) << name;
}

TEST(HeaderFile, OtherLinesAreRefusedWithoutTheirText) {
  using std::string_view_literals::operator""sv;
  for (const std::string_view text :
       {"secret"sv, "secret\n"sv, ": secret"sv, "Na me: secret"sv, "Name : secret"sv, " Name: secret"sv, "Name:"sv,
        "Name:  "sv, "Name: secret\r\n"sv, "Name: sec\rret"sv, "Name: sec\0ret"sv, "N\xc3\xa4me: secret"sv,
        "Name: secret\x7f"sv, "Name: secr\xc3\xa9t"sv, ""sv, "\n\n"sv, "# only\n"sv})
    EXPECT_THAT(refusal(text), ::testing::AllOf(Not("none"), Not(HasSubstr("secr")))) << text;
}

TEST(HeaderFile, NumberIsLimited) {
  std::string text;
  for (size_t i = 0; i < header_file::kMaxLines; ++i) text += "X: y\n";
  EXPECT_EQ(refusal(text), "none");
  EXPECT_THAT(refusal(text + "X: y\n"), HasSubstr("line 33: more than 32 headers"));
}

class HeaderFileTest : public ::testing::Test {
 protected:
  HeaderFileTest() { write("X-Key: first\n"); }

  void write(const std::string& text, mode_t mode = 0600) {
    temporary.write("headers", text);
    ::chmod(path.c_str(), mode);
  }
  Result<http::CredentialsPtr> open(http::CredentialsPtr token = nullptr) {
    return header_file::credentials(path, std::move(token), [this] { return now; });
  }
  // Another text of the same size, with the time of the first.
  void write_unnoticed(const std::string& text) {
    struct stat before {};
    ::stat(path.c_str(), &before);
    write(text);
    const std::array times{before.st_atim, before.st_mtim};
    ::utimensat(AT_FDCWD, path.c_str(), times.data(), 0);
  }

  TemporaryDirectory temporary;
  const std::string path = temporary.path("headers");
  Clock::time_point now{std::chrono::seconds(1'000)};
  const std::stop_token stop = {};
};

TEST_F(HeaderFileTest, IsReadAgainWhenItChanges) {
  const auto found = open();
  ASSERT_TRUE(found);
  const uint64_t before = (*found)->generation();
  EXPECT_NE(before, 0U);
  EXPECT_THAT((*found)->headers("GET", "https://h/"), ElementsAre("X-Key: first"));
  EXPECT_EQ((*found)->authorization(), "");
  EXPECT_EQ((*found)->key_origin().from, path);
  write("X-Key: the second\n");
  EXPECT_THAT((*found)->headers("GET", "https://h/"), ElementsAre("X-Key: the second"));
  EXPECT_NE((*found)->generation(), before);
}

TEST_F(HeaderFileTest, LastHeadersAreSentWhileTheFileIsGoneOrWrong) {
  const auto found = open();
  ASSERT_TRUE(found);
  for (const char* const text : {"nonsense", "Host: other"}) {
    write(text);
    EXPECT_THAT((*found)->headers("GET", ""), ElementsAre("X-Key: first"));
  }
  write("X-Key: public\n", 0644);
  EXPECT_THAT((*found)->headers("GET", ""), ElementsAre("X-Key: first"));
  ::unlink(path.c_str());
  EXPECT_THAT((*found)->headers("GET", ""), ElementsAre("X-Key: first"));
}

TEST_F(HeaderFileTest, RefusalReadsItAgainEveryTenSecondsAtMost) {
  const auto found = open();
  ASSERT_TRUE(found);
  write_unnoticed("X-Key: other\n");
  uint64_t sent = (*found)->generation();
  now += std::chrono::seconds(9);
  EXPECT_FALSE((*found)->read_again(sent, stop));
  now += std::chrono::seconds(1);
  EXPECT_TRUE((*found)->read_again(sent, stop));
  EXPECT_TRUE((*found)->read_again(sent, stop));  // another request with the old ones
  EXPECT_THAT((*found)->headers("GET", ""), ElementsAre("X-Key: other"));
  sent = (*found)->generation();
  EXPECT_FALSE((*found)->read_again(sent, stop));
  now += std::chrono::seconds(10);
  EXPECT_FALSE((*found)->read_again(sent, stop));  // the same ones
}

TEST_F(HeaderFileTest, ChallengeOfOldHeadersFindsTheOthersWithoutReadingAgain) {
  const auto found = open();
  ASSERT_TRUE(found);
  const http::SentKeys first{(*found)->generation()};
  now += std::chrono::seconds(10);
  write_unnoticed("X-Key: other\n");
  EXPECT_EQ((*found)->on_unauthorized({}, first, stop), true);
  write_unnoticed("X-Key: third\n");
  EXPECT_EQ((*found)->on_unauthorized({}, first, stop), true) << "another request with the old ones";
  now += std::chrono::seconds(10);
  EXPECT_EQ((*found)->on_unauthorized({}, first, stop), true) << "there are newer ones, so the file is not read";
  EXPECT_THAT((*found)->headers("GET", ""), ElementsAre("X-Key: other"));
  const http::SentKeys other{(*found)->generation()};
  EXPECT_EQ((*found)->on_unauthorized({}, other, stop), true) << "those were refused, too";
  EXPECT_THAT((*found)->headers("GET", ""), ElementsAre("X-Key: third"));
}

TEST_F(HeaderFileTest, FileOfOthersIsRefused) {
  for (const mode_t mode : {0640U, 0604U, 0660U}) {
    write("X-Key: first\n", mode);
    const auto found = open();
    ASSERT_FALSE(found);
    EXPECT_EQ(found.error().message, path + " is not used: others have access to it; chmod 600");
  }
  write(std::string(header_file::kMaxFile, '#') + "\nX: y");
  EXPECT_THAT(open().error().message, HasSubstr("has more than 16.0 KiB"));
}

TEST_F(HeaderFileTest, TokenIsSentToo) {
  const auto both = open(std::make_shared<http::FixedCredentials>("Bearer t", "with a token"));
  ASSERT_TRUE(both);
  EXPECT_EQ((*both)->authorization(), "Bearer t");
  EXPECT_EQ((*both)->description(), "with the headers of " + path + ", with a token");
  write("authorization: Basic x\n");
  EXPECT_FALSE(open(std::make_shared<http::FixedCredentials>("Bearer t")));
  EXPECT_TRUE(open());
}

TEST_F(HeaderFileTest, KeyringHasThemForTheirServerOnly) {
  UserKeyring keyring({}, {}, {.headers = {{"https://h.example:443", path}}});
  using Kind = http::CredentialsName::Kind;
  const auto headers = [&](const std::string& server) {
    return (*keyring.find({.kind = Kind::web, .server = server}, nullptr))->headers("GET", server);
  };
  EXPECT_THAT(headers("https://h.example:443"), ElementsAre("X-Key: first"));
  for (const char* const other : {"https://h.example:8443", "http://h.example:80", "https://other.example:443"})
    EXPECT_THAT(headers(other), ::testing::IsEmpty()) << other;
}

}  // namespace
}  // namespace weightfs::test::header_file_test
