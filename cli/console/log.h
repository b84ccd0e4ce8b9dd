// The log of a mount: writes lines up to a level to a sink, and keeps the last lines for .weightfs/log.
#pragma once

#include <array>
#include <deque>
#include <functional>
#include <mutex>
#include <set>
#include <string>

namespace weightfs {

/// Most severe first.
enum class Level { error, warning, info, debug };

inline constexpr std::array<const char*, 4> kLevelNames = {"error", "warning", "info", "debug"};

/// The priority of syslog(3) and the journal (LOG_ERR to LOG_DEBUG).
int syslog_priority(Level level);

/// Callable from any thread.
class Log {
 public:
  using Sink = std::function<void(Level, const std::string&)>;

  /// Writes lines up to `level`; drops the others.
  Log(Level level, Sink sink) : sink_(std::move(sink)), level_(level) {}

  void write(Level level, const std::string& line);

  /// Whether lines of this level are written; for lines that are expensive to format.
  bool is_enabled(Level level) const;

  /// Writes a line once, and ignores repetitions, so that a failure is logged once and not once per read.
  void write_once(Level level, const std::string& line);

  /// Writes a line regardless of the level; for requested output.
  void write_always(const std::string& line);

  void set_level(Level level);

  /// The last lines, each with its time (RFC 3339, UTC) and level.
  std::string last_lines() const;

 private:
  static constexpr size_t kMaxLines = 1000;
  static constexpr size_t kMaxRemembered = 10'000;

  void store_and_write(Level level, const std::string& line);

  Sink sink_;
  mutable std::mutex mutex_;  // guards the rest
  Level level_;
  std::deque<std::string> lines_;
  std::set<std::string> written_once_;
};

/// Writes to standard error: with the prefix "weightfs: ", or with a priority prefix ("<4>…", sd-daemon(3)) if standard
/// error is connected to the journal.
Log::Sink stderr_sink();

/// Writes to syslog(3).
Log::Sink syslog_sink();

}  // namespace weightfs
