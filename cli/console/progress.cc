#include "cli/console/progress.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <array>
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
  if (drawn_) std::fputs("\r\033[K", stderr);
  drawn_ = false;
}

void ProgressLine::end() {
  clear();
  shown_ = false;
}

bool ProgressLine::is_due(Clock::time_point now) const { return now - last_ >= kRedrawInterval; }

// Cuts at a character boundary.
void ProgressLine::draw(const std::string& line, Clock::time_point now) {
  size_t end = std::min(line.size(), columns_of(STDERR_FILENO).value_or(80) - 1);
  while (end > 0 && end < line.size() && (line[end] & 0xC0) == 0x80) --end;
  std::fprintf(stderr, "\r\033[K%s", line.substr(0, end).c_str());
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
    std::string line = fmt::format("[{}{}] {} of {}, {}/s", std::string(full, '#'), std::string(kWidth - full, '.'),
                                   human_size(shown), human_size(total), human_size(static_cast<uint64_t>(rate)));
    if (rate >= 1)
      line += fmt::format(", {} left", duration(static_cast<uint64_t>(static_cast<double>(total - shown) / rate)));
    return fmt::format("{}  {}", line, what);
  });
}

void FileCounter::show(uint64_t done, uint64_t total) {
  if (done == 0) begin_ = Clock::now();
  if (done == total) return clear();
  update(begin_.load() + kCounterDelay, [&](auto) { return fmt::format("opening {} of {} files", done, total); });
}

}  // namespace weightfs
