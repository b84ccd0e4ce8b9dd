// What the tests of HTTP share: one request, told as text.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <utility>

#include "base/text.h"
#include "cache/http/client.h"
#include "cache/registry/request_with_retry.h"
#include "tests/support/http_server.h"

namespace weightfs::asking {

inline const std::atomic<bool> kGoOn = false;

inline HttpOptions quick() {
  HttpOptions options;
  options.connect_timeout = std::chrono::seconds(20);
  options.stall_timeout = std::chrono::milliseconds(300);
  return options;
}

inline HttpOptions private_allowed() {
  HttpOptions options = quick();
  options.allow_private_urls = true;
  return options;
}

inline Request get(const std::string& url, Trust trust = Trust::user) {
  Request request;
  request.url = url;
  request.trust = trust;
  return request;
}

/// Status and body, or the failure, in a form to compare.
inline std::string told(const Result<Page>& page) {
  if (page) return str(page->answer.status, " ", page->body);
  constexpr const char* kCodes[] = {"not_found",   "corrupt",     "unsupported", "mismatch",
                                    "unavailable", "unreachable", "io"};
  return str(kCodes[static_cast<int>(page.error().code)], ": ", page.error().message);
}

inline std::string ask(const Request& request, HttpOptions options = quick()) {
  Http http(std::move(options));
  return told(page_of(http, request, 1 << 20, kGoOn));
}

}  // namespace weightfs::asking
