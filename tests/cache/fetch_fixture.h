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
#include "cache/direct_client.h"
#include "cache/download/remote_file.h"
#include "tests/cache/test_producer.h"
#include "tests/support/http_server.h"

namespace weightfs::fetch_fixture {

using test::describe;
using test::some_bytes;

inline const std::stop_token kNeverStop;

/// For servers that stall. On a busy machine, transfers from other servers would time out, too.
inline http::Options short_patience() {
  http::Options options;
  options.stall_timeout = std::chrono::milliseconds(300);
  return options;
}

inline download::RetryPolicy quick_retries() {
  return {.retries = 3, .first_delay = std::chrono::milliseconds(1), .max_delay = std::chrono::milliseconds(1500)};
}

inline download::RemoteFilePtr file_at(std::optional<uint64_t> size, const std::vector<std::string>& urls,
                                       download::RetryPolicy retries = quick_retries(), http::Options http = {}) {
  std::vector<download::Origin> origins;
  for (const std::string& url : urls) origins.push_back({url});
  return std::make_shared<download::RemoteFile>(std::make_shared<http::DirectClient>(http), "model", origins, size,
                                                retries);
}

/// The bytes from the beginning of a range, and its error.
struct Fetched {
  std::string bytes;
  std::optional<Error> error;

  /// The bytes as text, then the error.
  std::string text() const {
    return error ? fmt::format("{}, then {}", describe(bytes), error->message) : describe(bytes);
  }
};

/// The bytes from `from` on. Bytes before them, from a server without ranges, are ignored.
inline Fetched fetched(download::RemoteFile& file, uint64_t from = 0, const std::stop_token& stop = kNeverStop) {
  Fetched out;
  const auto sink = [&](uint64_t offset, std::span<const std::byte> bytes) -> Result<bool> {
    const uint64_t end = from + out.bytes.size();
    EXPECT_LE(offset, end);
    if (offset + bytes.size() <= end) return true;
    bytes = bytes.subspan(static_cast<size_t>(end - offset));
    out.bytes.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return true;
  };
  const uint64_t to = file.size() > 0 ? file.size() : UINT64_MAX;
  if (const auto done = file.fetch({from, to}, sink, stop); !done) out.error = done.error();
  return out;
}

inline Fetched fetched(std::optional<uint64_t> size, const std::vector<std::string>& urls) {
  return fetched(*file_at(size, urls));
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
