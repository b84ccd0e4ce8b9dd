#include "cli/console/retries.h"

#include <fmt/core.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <memory>

#include "base/text.h"
#include "report/text/time.h"

namespace weightfs {
namespace {

using std::chrono::milliseconds;

constexpr std::chrono::seconds kShownAfter{1};

long long seconds_of(milliseconds time) { return (time.count() + 999) / 1000; }

timespec as_timespec(std::chrono::system_clock::time_point time) {
  return {std::chrono::system_clock::to_time_t(time), 0};
}

}  // namespace

void report_retries(http::Options& options, std::function<void(const std::string&)> log) {
  const auto is_logged = std::make_shared<std::atomic<bool>>(false);
  options.on_retry = [log, is_logged](const http::Waiting& waiting, milliseconds delay) {
    const auto lasted = std::chrono::system_clock::now() - *waiting.since;
    // A progress bar may be in the line.
    if (lasted + delay >= kShownAfter && delay >= milliseconds(100) && ::isatty(STDERR_FILENO) == 1)
      fmt::print(stderr, "\r\x1b[Kretrying in {} s: {}\n", seconds_of(delay), printable(waiting.reason));
    if (waiting.is_outage && !is_logged->exchange(true))
      log(fmt::format("requests wait since {}: {}", utc_time(as_timespec(*waiting.since)), waiting.reason));
  };
  options.on_answer = [log, is_logged](milliseconds after) {
    if (is_logged->exchange(false)) log(fmt::format("requests are answered again after {} s", seconds_of(after)));
  };
}

}  // namespace weightfs
