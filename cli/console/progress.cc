#include "cli/console/progress.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <string>

#include "base/text.h"
#include "report/text/terminal.h"

namespace weightfs {
namespace {

// "1:05", "2:03:10".
std::string duration(uint64_t seconds) {
  std::array<char, 32> text{};
  const auto part = [](uint64_t value) { return static_cast<unsigned long long>(value); };
  if (seconds < 3600)
    std::snprintf(text.data(), text.size(), "%llu:%02llu", part(seconds / 60), part(seconds % 60));
  else
    std::snprintf(text.data(), text.size(), "%llu:%02llu:%02llu", part(seconds / 3600), part(seconds / 60 % 60),
                  part(seconds % 60));
  return text.data();
}

constexpr std::chrono::milliseconds kRedrawInterval{100};
constexpr std::chrono::seconds kCounterDelay{1};
constexpr size_t kRightMargin = 3;  // for the ^C that a terminal shows: a line of two rows would not be erased
constexpr std::string_view kErase = "\r\033[K";

// Whether a line of this process is drawn: a signal may end the process at that moment.
std::atomic<bool> is_on_terminal = false;

// The signal then ends the process, as without this handler.
void erase_and_end(int signal) {
  if (is_on_terminal) (void)!::write(STDERR_FILENO, kErase.data(), kErase.size());
  ::raise(signal);
}

// A signal that is ignored, or has a handler of the command, stays as it is.
void erase_at_signals() {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction action {};
    if (::sigaction(signal, nullptr, &action) != 0 || action.sa_handler != SIG_DFL) continue;
    action.sa_handler = erase_and_end;
    action.sa_flags = static_cast<int>(SA_RESETHAND);
    ::sigaction(signal, &action, nullptr);
  }
}

}  // namespace

double RecentRate::add(uint64_t done, Clock::time_point now) {
  samples_.push_back({now, done});
  while (samples_.size() > 2 && now - samples_[1].at >= kWindow) samples_.pop_front();
  const Sample& first = samples_.front();
  const double seconds = std::chrono::duration<double>(now - first.at).count();
  return seconds > 0 ? static_cast<double>(done - std::min(first.done, done)) / seconds : 0;
}

ProgressLine::ProgressLine() : shown_(::isatty(STDERR_FILENO) == 1) {}

void ProgressLine::clear() {
  const std::scoped_lock lock(mutex_);
  if (drawn_) fmt::print(stderr, "{}", kErase);
  if (drawn_) is_on_terminal = false;
  drawn_ = false;
}

void ProgressLine::end() {
  clear();
  shown_ = false;
}

bool ProgressLine::is_due(Clock::time_point now) const { return now - last_ >= kRedrawInterval; }

// Cuts at a character boundary.
void ProgressLine::draw(const std::string& line, Clock::time_point now) {
  const size_t columns = columns_of(STDERR_FILENO).value_or(80);
  if (!drawn_) erase_at_signals();
  is_on_terminal = true;
  fmt::print(stderr, "{}{}", kErase, begin_of_text(line, columns - std::min(columns, kRightMargin)));
  last_ = now;
  drawn_ = true;
}

void ProgressBar::show(uint64_t done, uint64_t total, std::string_view what) {
  if (total == 0) return;
  update({}, [&](Clock::time_point now) {
    constexpr size_t kWidth = 24;
    const uint64_t shown = std::min(done, total);
    const double rate = rate_.add(shown, now);
    const auto full = static_cast<size_t>(static_cast<double>(shown) / static_cast<double>(total) * kWidth);
    std::string line = fmt::format("[{}{}] {} of {}", std::string(full, '#'), std::string(kWidth - full, '.'),
                                   human_size(shown), human_size(total));
    if (rate >= 1)  // the first line has no rate yet
      line += fmt::format(", {}/s, {} left", human_size(static_cast<uint64_t>(rate)),
                          duration(static_cast<uint64_t>(static_cast<double>(total - shown) / rate)));
    return fmt::format("{}  {}", line, what);
  });
}

void FileCounter::show(uint64_t done, uint64_t total) {
  if (done == 0) begin_ = Clock::now();
  if (done == total) return clear();
  update(begin_.load() + kCounterDelay, [&](auto) { return fmt::format("opening {} of {} files", done, total); });
}

}  // namespace weightfs
