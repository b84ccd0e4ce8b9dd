#include "fs/http/protocol/request_parser.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

namespace weightfs::request_parser_test {
namespace {

using namespace httpd;

// The status of the refusal; 0: incomplete, 200: a request.
int status_of(const std::string& text) {
  RequestParser parser;
  const auto length = parser.parse(text);
  if (!length) return length.error().status;
  return *length == 0 ? 0 : 200;
}

int status_with(const std::string& fields) { return status_of("GET / HTTP/1.1\r\nHost: a\r\n" + fields + "\r\n"); }

TEST(RequestParser, TakesOneHeaderAndLeavesTheRest) {
  const std::string header = "GET /a?b HTTP/1.1\r\nHost: a\r\nX-Y:  c d \r\n\r\n";
  RequestParser parser;
  EXPECT_EQ(parser.parse(header + "GET"), header.size());
  const Request request = parser.take();
  EXPECT_EQ(request.method, "GET");
  EXPECT_EQ(request.target, "/a?b");
  EXPECT_EQ(*request.field("x-y"), "c d");
  EXPECT_EQ(request.field("x"), nullptr);
  EXPECT_TRUE(request.keep_alive);
  EXPECT_FALSE(request.has_body);
}

TEST(RequestParser, TakesPiecesOfAnySize) {
  const std::string header = "GET /a HTTP/1.1\r\nHost: a\r\nAccept: */*\r\n\r\n";
  RequestParser parser;
  for (size_t size = 1; size < header.size(); ++size) ASSERT_EQ(parser.parse(header.substr(0, size)), 0U) << size;
  EXPECT_EQ(parser.parse(header), header.size());
}

TEST(RequestParser, KeepAliveDependsOnTheVersion) {
  const auto keeps = [](const std::string& text) {
    RequestParser parser;
    EXPECT_TRUE(parser.parse(text));
    return parser.take().keep_alive;
  };
  EXPECT_TRUE(keeps("GET / HTTP/1.1\r\nHost: a\r\n\r\n"));
  EXPECT_FALSE(keeps("GET / HTTP/1.1\r\nHost: a\r\nConnection: x, Close\r\n\r\n"));
  EXPECT_FALSE(keeps("GET / HTTP/1.0\r\n\r\n"));
  EXPECT_TRUE(keeps("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"));
}

TEST(RequestParser, HostIsNeededOnce) {
  EXPECT_EQ(status_of("GET / HTTP/1.1\r\n\r\n"), 400);
  EXPECT_EQ(status_of("GET / HTTP/1.0\r\n\r\n"), 200);
  EXPECT_EQ(status_with("Host: b\r\n"), 400);
  for (const char* host : {"", "a/b", "u@a", "a b", "a:b", "a:1:2", "[::1", ":80", "a:999999"})
    EXPECT_EQ(status_of(fmt::format("GET / HTTP/1.1\r\nHost: {}\r\n\r\n", host)), 400) << host;
  for (const char* host : {"a", "a:80", "a:", "127.0.0.1:1", "[::1]", "[::1]:80"})
    EXPECT_EQ(status_of(fmt::format("GET / HTTP/1.1\r\nHost: {}\r\n\r\n", host)), 200) << host;
}

TEST(RequestParser, WhatProxiesFrameDifferentlyIsRefused) {
  EXPECT_EQ(status_with("Content-Length: 1\r\nTransfer-Encoding: chunked\r\n"), 400);
  EXPECT_EQ(status_with("Content-Length: 1\r\nContent-Length: 2\r\n"), 400);
  for (const char* length : {"+1", "-1", "0x1", "1 2", "1,1", "", "99999999999999999999999"})
    EXPECT_EQ(status_with(fmt::format("Content-Length: {}\r\n", length)), 400) << length;
  for (const char* coding : {"gzip", "chunked, gzip", "identity", "xchunked", "gzip, chunked"})
    EXPECT_GE(status_with(fmt::format("Transfer-Encoding: {}\r\n", coding)), 400) << coding;
  EXPECT_EQ(status_of("GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n"), 400);
  EXPECT_EQ(status_with("X: a\r\n b\r\n"), 400) << "a folded line";
  EXPECT_EQ(status_with("X : a\r\n"), 400) << "a space before the colon";
  EXPECT_EQ(status_with("X: a\nY: b\r\n"), 400) << "a bare LF";
  EXPECT_EQ(status_with("X: a\rb\r\n"), 400) << "a bare CR";
  EXPECT_EQ(status_with(std::string("X: a\0b\r\n", 8)), 400) << "NUL";
}

TEST(RequestParser, BodiesAreReported) {
  const auto has_body = [](const std::string& field) {
    RequestParser parser;
    EXPECT_TRUE(parser.parse("GET / HTTP/1.1\r\nHost: a\r\n" + field + "\r\n\r\n"));
    return parser.take().has_body;
  };
  EXPECT_TRUE(has_body("Content-Length: 10"));
  EXPECT_FALSE(has_body("Content-Length: 0"));
  EXPECT_FALSE(has_body("Content-Length: 000"));
  EXPECT_TRUE(has_body("Transfer-Encoding: Chunked"));
}

TEST(RequestParser, SizesAreLimited) {
  EXPECT_EQ(status_of("GET /" + std::string(kMaxRequestLine, 'a')), 414);
  EXPECT_EQ(status_of("GET /" + std::string(kMaxRequestLine, 'a') + " HTTP/1.1\r\nHost: a\r\n\r\n"), 414);
  EXPECT_EQ(status_with("X: " + std::string(kMaxHeader, 'a') + "\r\n"), 431);
  EXPECT_EQ(status_of("GET / HTTP/1.1\r\nHost: a\r\nX: " + std::string(kMaxHeader, 'a')), 431) << "without an end";
  std::string fields;
  for (size_t i = 0; i < kMaxFields; ++i) fields += "A: b\r\n";
  EXPECT_EQ(status_with(fields), 431);
}

TEST(RequestParser, VersionsAndExpectations) {
  EXPECT_EQ(status_of("GET / HTTP/2.0\r\nHost: a\r\n\r\n"), 505);
  EXPECT_EQ(status_of("GET / HTTP/0.9\r\nHost: a\r\n\r\n"), 505);
  EXPECT_EQ(status_of("GET /\r\n\r\n"), 400);
  EXPECT_EQ(status_with("Expect: 100-Continue\r\n"), 200);
  EXPECT_EQ(status_with("Expect: coffee\r\n"), 417);
}

}  // namespace
}  // namespace weightfs::request_parser_test
