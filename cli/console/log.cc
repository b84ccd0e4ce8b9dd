#include "cli/console/log.h"

#include <sys/stat.h>
#include <syslog.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "base/text.h"
#include "cli/console/time.h"

namespace weightfs {
namespace {

// systemd.exec(5): the device and inode of the stream that leads to the journal.
bool is_journal(int descriptor) {
  const char* stream = std::getenv("JOURNAL_STREAM");
  struct stat status {};
  if (stream == nullptr || ::fstat(descriptor, &status) != 0) return false;
  return str(status.st_dev, ":", status.st_ino) == stream;
}

}  // namespace

std::optional<Level> level_named(std::string_view name) {
  const auto found = std::find(kLevelNames.begin(), kLevelNames.end(), name);
  if (found == kLevelNames.end()) return std::nullopt;
  return static_cast<Level>(found - kLevelNames.begin());
}

int priority_of(Level level) {
  constexpr std::array kPriorities = {LOG_ERR, LOG_WARNING, LOG_INFO, LOG_DEBUG};
  return kPriorities[static_cast<size_t>(level)];
}

bool Log::says(Level level) const {
  const std::scoped_lock lock(mutex_);
  return level <= most_;
}

void Log::say(Level level, const std::string& line) {
  if (says(level)) keep_and_write(level, line);
}

void Log::say_once(Level level, const std::string& line) {
  {
    const std::scoped_lock lock(mutex_);
    if (level > most_ || said_.size() == kMostRemembered || !said_.insert(line).second) return;
  }
  keep_and_write(level, line);
}

void Log::answer(const std::string& line) { keep_and_write(Level::info, line); }

void Log::keep_and_write(Level level, const std::string& line) {
  const std::string shown = printable(line);  // whatever it names, it is one line
  {
    const std::scoped_lock lock(mutex_);
    if (kept_.size() == kMostKept) kept_.pop_front();
    kept_.push_back(str(utc_time(now()), " ", kLevelNames[static_cast<size_t>(level)], ": ", shown, "\n"));
  }
  write_(level, shown);
}

void Log::set_most(Level most) {
  const std::scoped_lock lock(mutex_);
  most_ = most;
}

std::string Log::last_lines() const {
  const std::scoped_lock lock(mutex_);
  std::string text;
  for (const std::string& line : kept_) text += line;
  return text;
}

Log::Write standard_error() {
  if (is_journal(STDERR_FILENO))
    return [](Level level, const std::string& line) {
      std::fprintf(stderr, "<%d>%s\n", priority_of(level), line.c_str());
    };
  return [](Level, const std::string& line) { std::fprintf(stderr, "weightfs: %s\n", line.c_str()); };
}

Log::Write system_log() {
  ::openlog("weightfs", LOG_PID, LOG_DAEMON);
  return [](Level level, const std::string& line) { ::syslog(priority_of(level), "%s", line.c_str()); };
}

}  // namespace weightfs
