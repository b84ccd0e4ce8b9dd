#include "cache/address_policy.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <map>

#include "cache/http/exchange.h"

namespace weightfs::address_policy_test {
namespace {

std::string use_of(const std::string& text) {
  const auto address = literal_address(text);
  if (!address) return "a name";
  return std::string(special_use(*address));
}

TEST(Address, PublicAddressHasNoSpecialUse) {
  for (const char* text :
       {"1.1.1.1",         "8.8.8.8",         "9.255.255.255",   "11.0.0.0",     "100.63.255.255",  "100.128.0.0",
        "126.255.255.255", "128.0.0.0",       "169.253.255.255", "169.255.0.0",  "172.15.255.255",  "172.32.0.0",
        "192.0.1.0",       "192.0.3.0",       "192.88.98.255",   "192.88.100.0", "192.167.255.255", "192.169.0.0",
        "198.17.255.255",  "198.20.0.0",      "198.51.99.255",   "198.51.101.0", "203.0.112.255",   "203.0.114.0",
        "223.255.255.255", "2606:4700::1111", "2a00:1450::1",    "2001:200::1",  "2001:db7::1",     "2001:db9::1",
        "3ffe::1",         "3fff:1000::"})
    EXPECT_EQ(use_of(text), "") << text;
}

// RFC 6890 and IANA's registries: first and last address of each block.
TEST(Address, EveryIPv4BlockIsRecognizedFromFirstToLastAddress) {
  const std::map<std::string, std::string> uses = {
      {"0.0.0.0", "unspecified"},         {"0.255.255.255", "unspecified"},   {"10.0.0.0", "private"},
      {"10.255.255.255", "private"},      {"100.64.0.0", "shared"},           {"100.127.255.255", "shared"},
      {"127.0.0.0", "loopback"},          {"127.255.255.255", "loopback"},    {"169.254.0.0", "link-local"},
      {"169.254.169.254", "link-local"},  {"169.254.255.255", "link-local"},  {"172.16.0.0", "private"},
      {"172.31.255.255", "private"},      {"192.0.0.0", "reserved"},          {"192.0.0.255", "reserved"},
      {"192.0.2.0", "documentation"},     {"192.0.2.255", "documentation"},   {"192.88.99.1", "reserved"},
      {"192.168.0.0", "private"},         {"192.168.255.255", "private"},     {"198.18.0.0", "benchmarking"},
      {"198.19.255.255", "benchmarking"}, {"198.51.100.0", "documentation"},  {"198.51.100.255", "documentation"},
      {"203.0.113.0", "documentation"},   {"203.0.113.255", "documentation"}, {"224.0.0.0", "multicast"},
      {"239.255.255.255", "multicast"},   {"240.0.0.0", "reserved"},          {"255.255.255.255", "reserved"}};
  for (const auto& [text, use] : uses) EXPECT_EQ(use_of(text), use) << text;
}

TEST(Address, EveryIPv6BlockIsRecognized) {
  const std::map<std::string, std::string> uses = {{"::", "unspecified"},
                                                   {"::1", "loopback"},
                                                   {"::2", "reserved"},
                                                   {"::7f00:1", "reserved"},  // IPv4-compatible, deprecated
                                                   {"64:ff9b:1::1", "private"},
                                                   {"100::1", "reserved"},
                                                   {"fc00::", "private"},
                                                   {"fdff:ffff::1", "private"},
                                                   {"fe80::1", "link-local"},
                                                   {"febf::1", "link-local"},
                                                   {"fec0::1", "site-local"},
                                                   {"feff::1", "site-local"},
                                                   {"ff02::1", "multicast"},
                                                   {"2001:db8::1", "documentation"},
                                                   {"3fff:fff::1", "documentation"},
                                                   {"2001::1", "reserved"},  // Teredo
                                                   {"2001:1ff::1", "reserved"},
                                                   {"4000::1", "reserved"},
                                                   {"::ffff:0:127.0.0.1", "reserved"},
                                                   {"5f00::1", "reserved"}};
  for (const auto& [text, use] : uses) EXPECT_EQ(use_of(text), use) << text;
}

TEST(Address, EmbeddedIPv4AddressIsClassifiedAsIPv4) {
  const std::map<std::string, std::string> uses = {
      {"::ffff:127.0.0.1", "loopback"}, {"::ffff:10.0.0.1", "private"},
      {"::ffff:8.8.8.8", ""},           {"64:ff9b::169.254.169.254", "link-local"},
      {"64:ff9b::8.8.8.8", ""},         {"2002:7f00:1::", "loopback"},
      {"2002:c0a8:1::5", "private"},    {"2002:808:808::1", ""}};
  for (const auto& [text, use] : uses) EXPECT_EQ(use_of(text), use) << text;
}

TEST(Address, UnusualNotationsAreParsedAsResolversParseThem) {
  for (const char* text :
       {"127.0.0.1", "127.1", "0x7f.1", "2130706433", "0177.0.0.1", "0x7f000001", "127.0.0.1.", "[::1]", "::1",
        "[::ffff:127.0.0.1]", "localhost", "LOCALHOST", "localhost.", "a.localhost", "a.localhost.", "[::ffff:7f00:1]"})
    EXPECT_EQ(use_of(text), "loopback") << text;
  for (const char* text : {"example.com", "notlocalhost", "localhost.example.com", "1.2.3.4.5", "", "256.1.1.1"})
    EXPECT_EQ(use_of(text), "a name") << text;
  EXPECT_EQ(use_of("[fe80::1%25eth0]"), "link-local");
}

TEST(Address, LoopbackHostIsRecognizedWithAndWithoutPort) {
  for (const char* host : {"localhost", "localhost:5000", "a.localhost:80", "127.0.0.1", "127.9.9.9:1", "127.1:80",
                           "[::1]", "[::1]:80", "::1", "LOCALHOST:1"})
    EXPECT_TRUE(is_loopback_host(host)) << host;
  for (const char* host : {"localhost.example", "127.0.0.1.example:80", "127.example", "10.0.0.1:80", "[::2]:80",
                           "[::1].example", "example:127", "", ":", ":80", "]:", "[::1"})
    EXPECT_FALSE(is_loopback_host(host)) << host;
}

TEST(Address, PlainHttpIsConfidentialOnLoopbackOnly) {
  for (const char* origin : {"https://example.com:443", "https://10.0.0.1", "http://localhost:80", "http://[::1]:5000"})
    EXPECT_TRUE(is_confidential(origin)) << origin;
  for (const char* origin : {"http://example.com:80", "http://10.0.0.1:80", "ftp://localhost:21", "localhost", ""})
    EXPECT_FALSE(is_confidential(origin)) << origin;
}

TEST(Address, NonInternetAddressIsRefused) {
  sockaddr address{};
  address.sa_family = AF_UNIX;
  EXPECT_FALSE(address_of(address));
  EXPECT_EQ(http::AddressPolicy().refusal(address_of(address)), "refused: unknown address");
}

TEST(Address, IsReadFromSocketAddress) {
  sockaddr_in four{};
  four.sin_family = AF_INET;
  four.sin_addr.s_addr = htonl(0x0A010203);
  EXPECT_EQ(printable_address(*address_of(reinterpret_cast<const sockaddr&>(four))), "10.1.2.3");
  sockaddr_in6 six{};
  six.sin6_family = AF_INET6;
  six.sin6_addr = *literal_address("fe80::1:2");
  EXPECT_EQ(printable_address(*address_of(reinterpret_cast<const sockaddr&>(six))), "fe80::1:2");
}

TEST(Address, IsComparedWithNetworkOfItsFamily) {
  const auto is_below = [](const char* address, const char* network) {
    return is_in(*literal_address(address), network);
  };
  EXPECT_TRUE(is_below("10.1.2.3", "10.0.0.0/8"));
  EXPECT_TRUE(is_below("10.1.2.3", "10.1.2.3"));
  EXPECT_TRUE(is_below("10.1.2.3", "0.0.0.0/0"));
  EXPECT_TRUE(is_below("fd12::1", "fd00::/8"));
  EXPECT_TRUE(is_below("::1", "::1/128"));
  for (const char* network :
       {"10.1.2.2", "10.1.2.2/32", "11.0.0.0/8", "::/0", "::ffff:0:0/96", "10.0.0.0/33", "10.0.0.0/", "10.0.0.0/-1",
        "10.0.0.0/8x", "10.0.0.0/99999999999999999999", "example.com", ""})
    EXPECT_FALSE(is_below("10.1.2.3", network)) << network;
  EXPECT_FALSE(is_below("::a01:203", "10.0.0.0/8"));
  EXPECT_FALSE(is_below("::1", "::1/129"));
}

TEST(Address, IsPrintedInStandardNotation) {
  EXPECT_EQ(printable_address(*literal_address("0x7f.1")), "127.0.0.1");
  EXPECT_EQ(printable_address(*literal_address("::ffff:10.0.0.1")), "10.0.0.1");
  EXPECT_EQ(printable_address(*literal_address("[FE80::1]")), "fe80::1");
}

}  // namespace
}  // namespace weightfs::address_policy_test
