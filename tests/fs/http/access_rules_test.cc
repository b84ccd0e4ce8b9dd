#include "fs/http/access_rules.h"

#include <gtest/gtest.h>

#include "base/values/base64.h"

namespace weightfs::access_rules_test {
namespace {

using namespace httpd;

Request request(std::vector<Field> fields) {
  Request out;
  out.method = "GET";
  out.fields = std::move(fields);
  return out;
}

int status_of(const AccessRules& rules, std::vector<Field> fields, const std::string& authority = "") {
  Target target{.authority = authority, .segments = {"tensors", "a"}, .path = "/tensors/a", .query = ""};
  const auto checked = check_access(rules, request(std::move(fields)), target, false);
  return checked ? 200 : checked.error().status;
}

AccessRules loopback() {
  AccessRules rules;
  rules.hosts = {"localhost", "127.0.0.1", "::1", "models.example"};
  return rules;
}

AccessRules with_token() {
  AccessRules rules = loopback();
  rules.token = "secret";
  return rules;
}

TEST(AccessRules, OnlyNamesOfTheServerAreAnswered) {
  for (const char* host : {"localhost", "LOCALHOST:8421", "localhost.", "127.0.0.1:1", "[::1]:8421", "models.example"})
    EXPECT_EQ(status_of(loopback(), {{"host", host}}), 200) << host;
  for (const char* host :
       {"evil.example", "localhost.evil.example", "evil.example:8421", "192.0.2.1", "[::2]", "xlocalhost"})
    EXPECT_EQ(status_of(loopback(), {{"host", host}}), 421) << host;
  EXPECT_EQ(status_of(loopback(), {{"host", "localhost"}}, "evil.example"), 421) << "the absolute form";
  EXPECT_EQ(status_of(loopback(), {}), 200) << "HTTP/1.0";
}

TEST(AccessRules, AServerOnAllAddressesAnswersToAnyAddress) {
  AccessRules rules = loopback();
  rules.is_any_address = true;
  for (const char* host : {"192.0.2.1:8421", "[2001:db8::1]", "localhost"})
    EXPECT_EQ(status_of(rules, {{"host", host}}), 200) << host;
  EXPECT_EQ(status_of(rules, {{"host", "evil.example"}}), 421);
}

TEST(AccessRules, TicketIsForOnePath) {
  const auto status = [](const std::string& text, bool is_public = false) {
    const auto checked =
        check_access(with_token(), request({{"host", "localhost"}}), parse_target(text).value(), is_public);
    return checked ? 200 : checked.error().status;
  };
  const std::string ticket = ticket_of(with_token(), {"tensors", "a/b"});
  EXPECT_EQ(status("/tensors/a%2fb?ticket=" + ticket), 200);
  EXPECT_EQ(status("/tensors/a?ticket=" + ticket), 401);
  EXPECT_EQ(status("/tensors/a%2fb/?ticket=" + ticket.substr(1)), 401);
  EXPECT_EQ(status("/tensors/a%2fb?ticket="), 401);
  EXPECT_EQ(status("/tensors/a%2fb?ticket=secret"), 401);
  EXPECT_EQ(status("/tensors/a%2fb", true), 200) << "what is of no model needs no token";
  EXPECT_EQ(ticket_of(loopback(), {"tensors"}), "");
  EXPECT_NE(ticket_of(with_token(), {"a", "b"}), ticket_of(with_token(), {"a/b"}));
}

TEST(AccessRules, TokenIsCompared) {
  const std::vector<std::pair<std::string, int>> cases = {
      {"Bearer secret", 200},
      {"bearer  secret", 200},
      {"Basic " + base64("anyone:secret"), 200},
      {"Basic " + base64(":secret"), 200},
      {"Bearer secre", 401},
      {"Bearer secrets", 401},
      {"Bearer secretsecret", 401},
      {"Bearer ", 401},
      {"Bearer", 401},
      {"secret", 401},
      {"Basic secret", 401},
      {"Basic " + base64("secret"), 401},
      {"Basic " + base64("secret:"), 401},
      {"Digest secret", 401},
  };
  for (const auto& [field, status] : cases)
    EXPECT_EQ(status_of(with_token(), {{"host", "localhost"}, {"authorization", field}}), status) << field;
  EXPECT_EQ(status_of(with_token(), {{"host", "localhost"}}), 401);
  EXPECT_FALSE(has_token(loopback(), request({{"authorization", "Bearer "}}))) << "no token is not a trusted one";
}

TEST(AccessRules, PagesOfOtherOriginsAreRefused) {
  const auto with = [](const AccessRules& rules, const std::string& site, const std::string& destination,
                       const std::string& origin = "") {
    std::vector<Field> fields = {{"host", "localhost"}, {"sec-fetch-site", site}, {"sec-fetch-dest", destination}};
    if (!origin.empty()) fields.push_back({"origin", origin});
    return status_of(rules, fields);
  };
  for (const char* destination : {"empty", "image", "script", "iframe", "object"}) {
    EXPECT_EQ(with(loopback(), "cross-site", destination), 403) << destination;
    EXPECT_EQ(with(loopback(), "same-site", destination), 403) << "another port";
    EXPECT_EQ(with(loopback(), "same-origin", destination), 200) << destination;
    EXPECT_EQ(with(loopback(), "none", destination), 200) << "typed";
  }
  EXPECT_EQ(with(loopback(), "same-origin", "document"), 200) << "a link was followed";
  AccessRules rules = loopback();
  rules.origins = {"https://a.example"};
  EXPECT_EQ(with(rules, "cross-site", "empty", "https://a.example"), 200);
  EXPECT_EQ(with(rules, "cross-site", "empty", "https://b.example"), 403);
  rules.origins = {"*"};
  EXPECT_EQ(with(rules, "cross-site", "image"), 200);
}

// Else the page learns which files exist: the window of a download stays empty.
TEST(AccessRules, LinksOfOtherPagesLeadToThePageOnly) {
  const auto status = [](const std::string& text, const std::string& site, bool is_public = false) {
    const Request navigation = request({{"host", "localhost"},
                                        {"sec-fetch-site", site},
                                        {"sec-fetch-mode", "navigate"},
                                        {"sec-fetch-dest", "document"}});
    const auto checked = check_access(loopback(), navigation, parse_target(text).value(), is_public);
    return checked ? 200 : checked.error().status;
  };
  for (const char* site : {"cross-site", "same-site"}) {
    EXPECT_EQ(status("/", site), 200);
    EXPECT_EQ(status("/.weightfs/page/app.js", site, true), 200);
    for (const char* other : {"/tensors/a", "/tensors/", "/missing", "/?q=a", "/?plain", "/.weightfs/status.json"})
      EXPECT_EQ(status(other, site), 403) << other;
  }
  EXPECT_EQ(status("/tensors/a", "none"), 200) << "typed";
  EXPECT_EQ(status("/tensors/a", "same-origin"), 200);
}

TEST(AccessRules, OnlyPermittedOriginsAreToldThatTheyMayRead) {
  AccessRules rules = loopback();
  rules.origins = {"https://a.example"};
  const auto answer = [&](const std::string& origin) {
    Response response;
    allow_origin(rules, request({{"origin", origin}}), response);
    std::string text;
    for (const Field& field : response.fields) text += field.name + "=" + field.value + "\n";
    return text;
  };
  EXPECT_NE(answer("https://a.example").find("Access-Control-Allow-Origin=https://a.example\n"), std::string::npos);
  EXPECT_EQ(answer("https://b.example"), "Vary=Origin\n");
  EXPECT_EQ(answer("null"), "Vary=Origin\n");
  rules.origins = {"*"};
  EXPECT_EQ(answer("https://a\texample"), "Vary=Origin\n");
  rules.origins = {};
  EXPECT_EQ(answer("https://a.example"), "");
}

}  // namespace
}  // namespace weightfs::access_rules_test
