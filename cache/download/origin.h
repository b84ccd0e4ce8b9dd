// Where a file can be downloaded, and how failures are retried.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "cache/http/client.h"
#include "cache/http/used_up.h"

namespace weightfs::download {

/// A URL of a file, with its credentials.
struct Origin {
  std::string url;
  http::Trust trust = http::Trust::user;
  std::shared_ptr<http::Credentials> credentials = nullptr;
  bool is_mirror = false;      ///< may have other bytes: only verified ones are served
  bool names_version = false;  ///< the URL is that of one version: if it is gone (404), the file has changed
  /// Describes the body of an error response, for messages; null: the body is not read.
  std::string (*error_text)(std::string_view body) = nullptr;

  friend bool operator==(const Origin&, const Origin&) = default;
};

/// How temporary failures are retried; tests set short times.
struct RetryPolicy {
  int retries = 5;                              ///< without progress in between
  std::chrono::milliseconds first_delay{500};   ///< before the first retry; doubled each time, with jitter
  std::chrono::milliseconds max_delay{30'000};  ///< a longer Retry-After is a failure, unless the network is waited for
  bool waits_for_network = true;                ///< errors of the network are retried for http::Client::patience()
  /// What is not requested again; null: everything is.
  std::shared_ptr<http::UsedUp> used_up = nullptr;
  /// Called when a mirror fails otherwise than with not_found, or has sent other bytes. From any thread; may be null.
  std::function<void(const Origin& mirror, const Error& error)> on_mirror_failure = {};
};

}  // namespace weightfs::download
