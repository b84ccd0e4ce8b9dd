// Runs the program of a credential helper, with limits of its time and output.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

namespace weightfs {

struct HelperRun {
  enum class End : uint8_t {
    exited,     ///< with `status`
    not_run,    ///< or killed by a signal
    timed_out,  ///< and killed
    too_long,   ///< it printed more than kMaxHelperOutput, and was killed
  };
  End end = End::not_run;
  int status = 0;
  std::string text = {};  ///< its standard output
};

inline constexpr size_t kMaxHelperOutput = 32 * 1024;

/// Runs the program at `path` with the argument `get` and `input` at its standard input, which is less than a page. It
/// has / as its directory, helper_environment(), a session of its own, and cannot gain privileges; what it prints to
/// standard error is dropped. A process that it leaves behind is not waited for. The caller has one thread.
HelperRun run_helper(const std::string& path, std::string_view input, std::chrono::milliseconds timeout);

/// The variables of this process that helpers get: what names the user, the session, files and servers, as NAME=VALUE.
/// Keys and tokens are left out, and proxies with a password.
std::vector<std::string> helper_environment();

}  // namespace weightfs
