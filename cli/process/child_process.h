// Running another program, and what became of it.
#pragma once

#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

#include "base/os/descriptor.h"
#include "base/result.h"

namespace weightfs {

/// Where what it writes to standard error goes.
enum class Stderr { passed_on, kept };

struct Ran {
  int status = -1;   ///< its exit status; -1 when it could not be run, or was killed
  std::string said;  ///< what was kept (at most some kilobytes), or why it could not be run
};

/// Runs the program that is the first word, found on the PATH, and waits for it. Other threads may be running; nothing
/// of their descriptors is changed.
Ran run_program(std::vector<std::string> words, Stderr where);

/// A program that runs meanwhile, and passes on what it writes to standard error.
class Running {
 public:
  /// Fails with io when it cannot be run.
  static Result<Running> start(std::vector<std::string> words);
  /// Tells it to end if it has not, and waits for that.
  ~Running();
  Running(Running&& other) noexcept : process_(std::exchange(other.process_, -1)), end_(std::move(other.end_)) {}
  Running& operator=(Running&&) = delete;

  /// A descriptor that can be read from once the program has ended, for poll(2).
  int end() const { return end_.number(); }

 private:
  explicit Running(pid_t process);

  pid_t process_;
  Descriptor end_;
};

}  // namespace weightfs
