// What a mount says while it serves: each thing once, to whoever reads it, and the last lines kept for .weightfs/log.
#pragma once

#include <array>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>

namespace weightfs {

/// Worst first.
enum class Level { error, warning, info, debug };

inline constexpr std::array<const char*, 4> kLevelNames = {"error", "warning", "info", "debug"};

/// The level of that name, if there is one.
std::optional<Level> level_named(std::string_view name);

/// What syslog(3) and the journal call it (LOG_ERR to LOG_DEBUG).
int priority_of(Level level);

/// Callable from any thread.
class Log {
 public:
  using Write = std::function<void(Level, const std::string&)>;

  /// Lines up to `most` are written; the others are not even kept.
  Log(Level most, Write write) : write_(std::move(write)), most_(most) {}

  void say(Level level, const std::string& line);

  /// Whether a line of this level would be written: where it costs something to make.
  bool says(Level level) const;

  /// The same, but not again when it was said so before: one line for each thing that goes wrong, never one for each
  /// read that meets it.
  void say_once(Level level, const std::string& line);

  /// What somebody asked for: written whatever the level.
  void answer(const std::string& line);

  void set_most(Level most);

  /// The last lines, each with its time (RFC 3339, UTC) and level.
  std::string last_lines() const;

 private:
  static constexpr size_t kMostKept = 1000;
  static constexpr size_t kMostRemembered = 10'000;

  void keep_and_write(Level level, const std::string& line);

  Write write_;
  mutable std::mutex mutex_;  // guards the rest
  Level most_;
  std::deque<std::string> kept_;
  std::set<std::string> said_;
};

/// Writes to standard error: with "weightfs: " in front, or as the journal wants it ("<4>…", sd-daemon(3)) where
/// standard error is the journal's.
Log::Write standard_error();

/// Writes to syslog, which is the journal where there is one.
Log::Write system_log();

}  // namespace weightfs
