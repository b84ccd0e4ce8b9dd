// What is odd about a container, said at most so often that a hostile one cannot fill the memory with complaints.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.h"

namespace weightfs {

/// More warnings than this are only counted.
inline constexpr size_t kMostWarnings = 100;

class Warnings {
 public:
  /// One warning: `parts` one after the other.
  template <class... Parts>
  void add(const Parts&... parts) {
    if (lines_.size() < kMostWarnings)
      lines_.push_back(str(parts...));
    else
      ++unsaid_;
  }

  /// The warnings about one file of several, `subject` before each.
  void append(const Warnings& others, std::string_view subject) {
    for (const std::string& line : others.lines_) add(subject, line);
    unsaid_ += others.unsaid_;
  }

  uint64_t size() const { return lines_.size() + unsaid_; }

  /// All lines; the last tells how many were left out.
  std::vector<std::string> take() && {
    if (unsaid_ > 0) lines_.push_back(str("... and ", unsaid_, " more"));
    return std::move(lines_);
  }

 private:
  std::vector<std::string> lines_;
  uint64_t unsaid_ = 0;
};

}  // namespace weightfs
