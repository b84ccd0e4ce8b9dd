// Running another program, and what became of it.
#pragma once

#include <string>
#include <vector>

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

}  // namespace weightfs
