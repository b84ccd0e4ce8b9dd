// Helpers for HTTP tests: one request, its result as text.
#pragma once

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stop_token>
#include <string>
#include <utility>

#include "base/text.h"
#include "cache/direct_client.h"
#include "cache/download/request_with_retry.h"
#include "tests/support/http_server.h"

namespace weightfs::http_fixture {

inline const std::stop_token kNeverStop;

inline http::Options quick() {
  http::Options options;
  options.connect_timeout = std::chrono::seconds(20);
  options.stall_timeout = std::chrono::milliseconds(300);
  return options;
}

inline http::Options private_allowed() {
  http::Options options = quick();
  options.allow_private_urls = true;
  return options;
}

inline http::Request get(const std::string& url, http::Trust trust = http::Trust::user) {
  http::Request request;
  request.url = url;
  request.trust = trust;
  return request;
}

/// Status and body, or the error, as text.
inline std::string describe(const Result<download::Response>& page) {
  if (page) return fmt::format("{} {}", page->head.status, page->body);
  constexpr const char* kNames[kCodes] = {"not_found", "corrupt",     "unsupported", "forbidden",
                                          "mismatch",  "unavailable", "network",     "unreachable",
                                          "io",        "stale",       "absent"};
  return fmt::format("{}: {}", kNames[static_cast<int>(page.error().code)], page.error().message);
}

inline std::string send(const http::Request& request, http::Options options = quick()) {
  http::DirectClient http(std::move(options));
  return describe(download::send_request(http, request, 1 << 20, kNeverStop));
}

}  // namespace weightfs::http_fixture
