// The code that lets the browser of `weightfs open` have the token: every user can read the command line that has it.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>

#include "base/result.h"
#include "fs/http/protocol/message.h"
#include "fs/http/protocol/target.h"
#include "fs/http/server_options.h"

namespace weightfs {

/// 128 random bits as hexadecimal digits.
Result<std::string> random_secret();

/// The user of the socket whose own end is `client`, and whose other end is `port` of this machine, from the text of
/// /proc/net/tcp or tcp6. Nothing if it is not there, or not IPv4.
std::optional<uid_t> owner_of_connection(std::string_view table, const httpd::Client& client, uint16_t port);

/// A code that is exchanged for a token once, within a minute, by the user of this process. Callable from any thread.
class OpenCode {
 public:
  /// `server`: its URL, "http://127.0.0.1:8421/". The code is not valid before start().
  OpenCode(std::string server, std::string code, std::string token);

  void start();

  /// The URL that a browser opens.
  std::string url() const;

  static bool is_for(const httpd::Target& target);

  /// A redirection to the page, with the token in the fragment, if the request has the code; a refusal otherwise.
  httpd::Accepted<httpd::Response> answer(const httpd::Request& request, const httpd::Target& target,
                                          const httpd::Client& client);

 private:
  const std::string server_;
  const std::string code_;
  const std::string token_;
  const uint16_t port_;  // of the server
  std::mutex mutex_;     // guards the rest
  std::chrono::steady_clock::time_point until_{};
  bool is_used_ = false;
};

}  // namespace weightfs
