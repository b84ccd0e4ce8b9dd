#include "cli/console/log.h"

#include <fmt/core.h>
#include <sys/stat.h>
#include <syslog.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "base/text.h"
#include "report/text/time.h"

namespace weightfs {
namespace {

// systemd.exec(5): the device and inode of the stream that leads to the journal.
bool is_journal(int descriptor) {
  const char* stream = std::getenv("JOURNAL_STREAM");
  struct stat status {};
  if (stream == nullptr || ::fstat(descriptor, &status) != 0) return false;
  return fmt::format("{}:{}", status.st_dev, status.st_ino) == stream;
}

}  // namespace

int syslog_priority(Level level) {
  constexpr std::array kPriorities = {LOG_ERR, LOG_WARNING, LOG_INFO, LOG_DEBUG};
  return kPriorities[static_cast<size_t>(level)];
}

bool Log::is_enabled(Level level) const {
  const std::scoped_lock lock(mutex_);
  return level <= level_;
}

void Log::write(Level level, const std::string& line) {
  if (is_enabled(level)) store_and_write(level, line);
}

void Log::write_once(Level level, const std::string& line) {
  {
    const std::scoped_lock lock(mutex_);
    if (level > level_ || written_once_.size() == kMaxRemembered || !written_once_.insert(line).second) return;
  }
  store_and_write(level, line);
}

void Log::write_always(const std::string& line) { store_and_write(Level::info, line); }

void Log::store_and_write(Level level, const std::string& line) {
  const std::string shown = printable(line);  // names may contain newlines
  {
    const std::scoped_lock lock(mutex_);
    if (lines_.size() == kMaxLines) lines_.pop_front();
    lines_.push_back(fmt::format("{} {}: {}\n", utc_time(now()), kLevelNames[static_cast<size_t>(level)], shown));
  }
  sink_(level, shown);
}

void Log::set_level(Level level) {
  const std::scoped_lock lock(mutex_);
  level_ = level;
}

std::string Log::last_lines() const {
  const std::scoped_lock lock(mutex_);
  std::string text;
  for (const std::string& line : lines_) text += line;
  return text;
}

Log::Sink stderr_sink() {
  if (is_journal(STDERR_FILENO))
    return [](Level level, const std::string& line) {
      std::fprintf(stderr, "<%d>%s\n", syslog_priority(level), line.c_str());
    };
  return [](Level, const std::string& line) { std::fprintf(stderr, "weightfs: %s\n", line.c_str()); };
}

Log::Sink syslog_sink() {
  ::openlog("weightfs", LOG_PID, LOG_DAEMON);
  return [](Level level, const std::string& line) { ::syslog(syslog_priority(level), "%s", line.c_str()); };
}

}  // namespace weightfs
