// Libraries and set-uid helpers say why they failed to standard error. This keeps it, so that it can become part of a
// message.
#pragma once

#include <string>

namespace weightfs {

/// From construction on, what this process and its children write to standard error goes to a file in memory;
/// destruction puts standard error back. Only while the process has one thread.
class KeptStderr {
 public:
  KeptStderr();
  ~KeptStderr();
  KeptStderr(const KeptStderr&) = delete;
  KeptStderr& operator=(const KeptStderr&) = delete;

  /// The last line that was written, without the name of the program in front of it; "" for nothing.
  std::string last_line() const;

 private:
  int file_;
  int before_;
};

}  // namespace weightfs
