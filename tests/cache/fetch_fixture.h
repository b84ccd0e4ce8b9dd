// Helpers for download tests: short timeouts, and a download's result as text.
#pragma once

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "base/text.h"
#include "cache/download/download.h"
#include "tests/cache/test_producer.h"
#include "tests/support/http_server.h"

namespace weightfs::fetch_fixture {

using test::describe;
using test::some_bytes;

inline const std::stop_token kNeverStop;

inline http::Options short_patience() {
  http::Options options;
  options.stall_timeout = std::chrono::milliseconds(300);
  return options;
}

inline download::FetchOptions quick_retries() {
  download::FetchOptions options;
  options.retries = 3;
  options.first_delay = std::chrono::milliseconds(1);
  options.max_delay = std::chrono::milliseconds(1500);
  options.scale_up_interval = std::chrono::milliseconds(10);
  return options;
}

inline download::FetchPtr fetch_of(std::optional<uint64_t> size, const std::vector<std::string>& urls,
                                   download::FetchOptions options = quick_retries(),
                                   http::Options http = short_patience()) {
  std::vector<download::Origin> origins;
  for (const std::string& url : urls) origins.push_back({url});
  return std::make_shared<download::Fetch>(std::make_shared<http::Client>(http), "model", size, origins, options);
}

/// All bytes of a stream, and its error.
struct Fetched {
  uint64_t begins_at = 0;
  std::string bytes;
  std::string validator;
  std::string source;
  std::optional<Error> error;

  /// The bytes as text, then the error.
  std::string text() const {
    return error ? fmt::format("{}, then {}", describe(bytes), error->message) : describe(bytes);
  }
};

inline Fetched fetched(download::Fetch& fetch, const download::ResumePoint& left = {},
                       const std::stop_token& stop = kNeverStop) {
  auto begun = fetch.begin(left, stop);
  if (!begun) return {0, "", "", "", begun.error()};
  download::FetchStream& stream = **begun;
  Fetched out;
  std::string buffer(100'000, '\0');
  for (;;) {
    const auto got = stream.next(std::as_writable_bytes(std::span(buffer)));
    if (!got) out.error = got.error();
    if (!got || *got == 0) break;
    out.bytes.append(buffer, 0, *got);
  }
  out.begins_at = stream.begins_at();
  out.validator = stream.validator();
  out.source = stream.source();
  return out;
}

inline Fetched fetched(std::optional<uint64_t> size, const std::vector<std::string>& urls) {
  return fetched(*fetch_of(size, urls));
}

inline const std::string kBody = some_bytes(300'000);
inline constexpr uint64_t kSize = 300'000;

inline HttpServer::Handler serves(const std::string& body, const std::string& etag = "\"e1\"") {
  return [=](const SeenRequest& request, Wire& wire) { serve_file(request, wire, body, etag); };
}

inline std::string head(uint64_t size, const std::string& headers = "") {
  return fmt::format("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n{}\r\n", size, headers);
}

/// Sends these responses first, then serves the file.
inline HttpServer::Handler first(std::vector<std::string> answers) {
  auto count = std::make_shared<std::atomic<size_t>>(0);
  return [=](const SeenRequest& request, Wire& wire) {
    const size_t i = (*count)++;
    i < answers.size() ? static_cast<void>(wire.send(answers[i])) : serve_file(request, wire, kBody);
  };
}

/// Closes the first connection after this many bytes of the body.
inline HttpServer::Handler cut_once(size_t after) {
  auto count = std::make_shared<std::atomic<size_t>>(0);
  return [=](const SeenRequest& request, Wire& wire) {
    if ((*count)++ > 0) return serve_file(request, wire, kBody);
    wire.send(head(kSize, "ETag: \"e1\"\r\n") + kBody.substr(0, after));
    wire.close();
  };
}

inline std::string chunked(std::string_view body) {
  std::ostringstream out;
  out << std::hex << body.size() << "\r\n" << body << "\r\n0\r\n\r\n";
  return "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + out.str();
}

inline std::string dead_url() {
  HttpServer server(always(""));
  return server.url("/dead");
}

}  // namespace weightfs::fetch_fixture
