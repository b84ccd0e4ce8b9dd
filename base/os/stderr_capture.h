// Captures standard error. Libraries and set-uid helpers report their failures only there; the captured text becomes
// part of an error message.
#pragma once

#include <string>

namespace weightfs {

/// Redirects standard error of this process and its children to a file in memory; the destructor restores it. Use it
/// only while the process has one thread.
class StderrCapture {
 public:
  StderrCapture();
  ~StderrCapture();
  StderrCapture(const StderrCapture&) = delete;
  StderrCapture& operator=(const StderrCapture&) = delete;

  /// The last line that was written, without the name of the program in front of it; "" for nothing.
  std::string last_line() const;

 private:
  int file_;
  int before_;
};

}  // namespace weightfs
