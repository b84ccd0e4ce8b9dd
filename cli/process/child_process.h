// Runs other programs.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/os/descriptor.h"
#include "base/result.h"

namespace weightfs {

/// The destination of standard error of the program.
enum class Stderr { inherited, captured };

struct ProcessResult {
  int status = -1;          ///< exit status; -1 if it could not be run or was killed
  std::string stderr_text;  ///< captured text (a few KiB at most), or why it could not be run

  /// The last line of stderr_text, without "PROGRAM: " in front.
  std::string last_line(std::string_view program) const;
};

/// The file of a program; "" if there is none on PATH.
std::string find_on_path(const std::string& program);

/// Runs the program words[0], found on PATH, and waits for it. Safe with other threads; their descriptors are not
/// changed.
ProcessResult run_program(std::vector<std::string> words, Stderr where);

/// Closes all descriptors but the standard ones and `kept`, of which negative ones are none.
void close_all_but(std::vector<int> kept);

/// Opens /dev/null in the place of the standard descriptors: a caller that captures the output of this program must not
/// wait for a process that only serves it.
void close_standard_descriptors();

/// A program that runs in the background and inherits standard error.
class ChildProcess {
 public:
  /// Fails with io if it cannot be run.
  static Result<ChildProcess> start(std::vector<std::string> words);
  /// Sends SIGTERM if it is still running, and waits for its exit.
  ~ChildProcess();
  ChildProcess(ChildProcess&& other) noexcept
      : process_(std::exchange(other.process_, -1)), end_(std::move(other.end_)) {}
  ChildProcess& operator=(ChildProcess&&) = delete;

  /// A descriptor that becomes readable when the program exits, for poll(2).
  int end() const { return end_.number(); }

 private:
  explicit ChildProcess(pid_t process);

  pid_t process_;
  Descriptor end_;
};

}  // namespace weightfs
