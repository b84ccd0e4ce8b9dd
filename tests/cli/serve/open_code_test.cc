// The code of `weightfs open`: who may exchange it for the token, and how often.
#include "cli/serve/open_code.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace weightfs::open_code_test {
namespace {

constexpr const char* kServer = "http://127.0.0.1:8080/";
constexpr uint16_t kServerPort = 8080;  // 1F90

httpd::Client client_at(const char* address, uint16_t port) { return {address, true, {}, port}; }

httpd::Accepted<httpd::Response> asked(OpenCode& code, const std::string& text, const std::string& method = "GET") {
  httpd::Request request;
  request.method = method;
  // No socket has this port, so that the owner cannot be told.
  return code.answer(request, httpd::parse_target(text).value(), client_at("127.0.0.1", 0));
}

TEST(OpenCode, IsExchangedForTheTokenOnce) {
  OpenCode code(kServer, "123", "secret");
  EXPECT_EQ(code.url(), "http://127.0.0.1:8080/.weightfs/open?code=123");
  EXPECT_TRUE(OpenCode::is_for(httpd::parse_target("/.weightfs/open?code=123").value()));
  EXPECT_EQ(asked(code, "/.weightfs/open?code=123").error().message,
            "the code has expired; open the address that weightfs open has printed")
      << "not started";
  code.start();
  for (const char* wrong : {"/.weightfs/open", "/.weightfs/open?code=", "/.weightfs/open?code=12",
                            "/.weightfs/open?code=1234", "/.weightfs/open?code=secret"})
    EXPECT_EQ(asked(code, wrong).error().status, 403) << wrong;
  EXPECT_EQ(asked(code, "/.weightfs/open?code=123", "HEAD").error().status, 403) << "does not use it up";
  const auto first = asked(code, "/.weightfs/open?code=123");
  ASSERT_TRUE(first);
  EXPECT_EQ(first->status, 303);
  const auto location = std::ranges::find(first->fields, "Location", &httpd::Field::name);
  ASSERT_NE(location, first->fields.end());
  EXPECT_EQ(location->value, "/#token=secret");
  const auto second = asked(code, "/.weightfs/open?code=123");
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().status, 410);
  EXPECT_EQ(second.error().message, "the code has been used; open the address that weightfs open has printed");
}

TEST(OpenCode, OtherTargetsAreNotForIt) {
  for (const char* text : {"/", "/open?code=123", "/.weightfs/", "/.weightfs/open/more", "/.weightfs/openx"})
    EXPECT_FALSE(OpenCode::is_for(httpd::parse_target(text).value())) << text;
}

// Lines of proc(5): the client's end (port 9999) is of user 1000, the server's of user 7.
TEST(OpenCode, OwnerOfAConnectionIsThatOfTheClientsEnd) {
  const std::string table =
      "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
      "   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     7        0 1 1\n"
      "   1: 0100007F:1F90 0100007F:270F 01 00000000:00000000 00:00000000 00000000     7        0 2 1\n"
      "   2: 0100007F:270F 0100007F:1F91 01 00000000:00000000 00:00000000 00000000    99        0 3 1\n"
      "   3: 0100007F:270F 0100007F:1F90 01 00000000:00000000 00:00000000 00000000  1000        0 4 1\n"
      "   4: 0200007F:270F 0100007F:1F90 01 00000000:00000000 00:00000000 00000000  1001        0 5 1\n";
  EXPECT_EQ(owner_of_connection(table, client_at("127.0.0.1", 9999), kServerPort), 1000U);
  EXPECT_EQ(owner_of_connection(table, client_at("127.0.0.2", 9999), kServerPort), 1001U);
  const std::string v6 =
      "   0: 0000000000000000FFFF00000100007F:270F 0000000000000000FFFF00000100007F:1F90 01 "
      "00000000:00000000 00:00000000 00000000  1002        0 4 1\n";
  EXPECT_EQ(owner_of_connection(v6, client_at("127.0.0.1", 9999), kServerPort), 1002U);
}

TEST(OpenCode, OwnerIsNotToldWithoutItsLine) {
  const std::string cut = "   3: 0100007F:270F 0100007F:1F90 01 00000000:00000000";
  for (const std::string& table : {std::string(), std::string("\n\n"), std::string("nonsense"), cut})
    EXPECT_FALSE(owner_of_connection(table, client_at("127.0.0.1", 9999), kServerPort)) << table;
  EXPECT_FALSE(owner_of_connection(cut + " 00:00000000 0 5", client_at("unix", 9999), kServerPort));
}

}  // namespace
}  // namespace weightfs::open_code_test
