// Requests for keys, and what answers and files say.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/values/value.h"
#include "cache/download/request_with_retry.h"
#include "protocols/s3/key_source.h"

namespace weightfs::aws {

constexpr size_t kMaxAnswer = 16 * 1024;  // bytes of a service

/// download::request_keys_with_retry() for an answer of at most kMaxAnswer.
Result<download::Response> ask(http::Client& client, const http::Request& request, const std::stop_token& stop);

struct Attempts {
  std::chrono::milliseconds timeout;  ///< of each
  int count;
};
/// For a service of the machine, not as --retries and --wait-for-network say: a machine without the service never has
/// an answer. Fails with network for a temporary status, too.
Result<download::Response> ask_soon(http::Client& client, http::Request request, const Attempts& attempts,
                                    const std::stop_token& stop);

/// False if `stop` was set.
bool pause_for(std::chrono::milliseconds time, const std::stop_token& stop);

/// Fails with forbidden, or with network for a temporary status: "NAME: URL: status 403, reason".
tl::unexpected<Error> refused(const std::string& name, const std::string& url, const download::Response& page,
                              const std::string& reason = "");

/// "2026-11-30T12:34:56Z", also with a fraction, an offset, or UTC in place of Z. Nothing if it is not a time from 1970
/// to 2200.
std::optional<std::chrono::system_clock::time_point> parse_expiry(std::string_view text);

/// The keys of a JSON object. Fails with forbidden if one is missing or cannot be sent, or if the time is not valid.
struct KeyNames {
  const char* id = "AccessKeyId";
  const char* secret = "SecretAccessKey";
  const char* token = "Token";
  const char* expiry = "Expiration";  ///< a text, or milliseconds since 1970
};
Result<s3::TimedKeys> keys_in(const Map& object, const KeyNames& names = {});

/// A JSON object of at most 1000 values. Fails with forbidden.
Result<Map> object_in(std::string body);

/// A file of at most 64 KiB, without the white space at its end. Fails with forbidden.
Result<std::string> read_small_file(const std::string& path);

/// The failure with the name of the source before it. Keys that cannot be had are forbidden, unless the network failed.
Error named(const std::string& name, const Error& error);

/// Headers with secrets: http::Client sends them to no other origin.
class SecretHeaders final : public http::Credentials {
 public:
  explicit SecretHeaders(std::vector<std::string> lines) : lines_(std::move(lines)) {}
  std::vector<std::string> headers(std::string_view /*method*/, const std::string& /*url*/) override { return lines_; }

 private:
  const std::vector<std::string> lines_;
};

}  // namespace weightfs::aws
