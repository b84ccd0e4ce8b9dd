#include "cache/http/proxy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <string>

#include "tests/cache/http_fixture.h"

namespace weightfs::proxy_test {
namespace {

using namespace http;

class Proxy : public ::testing::Test {
 protected:
  static constexpr const char* kNames[] = {"http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY",
                                           "all_proxy",  "ALL_PROXY",  "no_proxy",    "NO_PROXY"};
  void SetUp() override {
    for (const char* name : kNames)
      if (const char* value = std::getenv(name); value != nullptr) kept_[name] = value;
    clear();
  }
  void TearDown() override {
    clear();
    for (const auto& [name, value] : kept_) ::setenv(name.c_str(), value.c_str(), 1);
  }
  static void clear() {
    for (const char* name : kNames) ::unsetenv(name);
  }

 private:
  std::map<std::string, std::string> kept_;
};

TEST_F(Proxy, PasswordIsNotInMessages) {
  for (const char* const proxy :
       {"foo://me:s3cret@127.0.0.1:1", "http://me:s3 cret@127.0.0.1:1", "http://me:s3cret@127.0.0.1:99999",
        "http://me:s3/cret@127.0.0.1:1", "http://me:s3cret@127.0.0.1:1", "me:s3cret@127.0.0.1:1"}) {
    ::setenv("http_proxy", proxy, 1);
    const std::string text = http_fixture::send(http_fixture::get("http://127.0.0.1:1/model"));
    EXPECT_THAT(text, testing::HasSubstr("http://127.0.0.1:1/model: ")) << proxy;
    EXPECT_THAT(text, testing::Not(testing::ContainsRegex("s3|cret"))) << proxy;
  }
}

TEST_F(Proxy, IsChosenByScheme) {
  EXPECT_EQ(proxy_of("http", "example.com").url, "");
  ::setenv("HTTP_PROXY", "http://evil", 1);  // in a CGI script: set from a header of the client
  EXPECT_EQ(proxy_of("http", "example.com").url, "");
  ::setenv("ALL_PROXY", "socks5://all", 1);
  EXPECT_EQ(proxy_of("http", "example.com").url, "socks5://all");
  ::setenv("http_proxy", "http://one", 1);
  ::setenv("HTTPS_PROXY", "http://two", 1);
  EXPECT_EQ(proxy_of("http", "example.com").url, "http://one");
  EXPECT_EQ(proxy_of("https", "example.com").url, "http://two");
}

TEST_F(Proxy, IsBypassedForNoProxyHosts) {
  ::setenv("all_proxy", "http://proxy", 1);
  ::setenv("no_proxy", " .example.com, 10.0.0.0/8\tintern,::1,192.168.1.1", 1);
  for (const char* host :
       {"example.com", "a.EXAMPLE.com", "a.example.com.", "10.1.2.3", "[::1]", "intern", "192.168.1.1"})
    EXPECT_EQ(proxy_of("http", host).url, "") << host;
  for (const char* host : {"badexample.com", "example.org", "11.0.0.1", "::2", "1.192.168.1.1x", "192.168.1.2"})
    EXPECT_EQ(proxy_of("http", host).url, "http://proxy") << host;
  ::setenv("no_proxy", "*", 1);
  EXPECT_EQ(proxy_of("http", "example.org").url, "");
}

}  // namespace
}  // namespace weightfs::proxy_test
