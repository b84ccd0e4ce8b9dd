// Warnings about a container. Their number is bounded, so that a hostile container cannot exhaust memory.
#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.h"

namespace weightfs {

/// The number of warnings that are kept; further ones are counted.
inline constexpr size_t kMaxWarnings = 100;

class Warnings {
 public:
  /// Adds a warning, formatted as by fmt::format().
  template <class... Values>
  void add(fmt::format_string<Values...> format, Values&&... values) {
    if (lines_.size() < kMaxWarnings)
      lines_.push_back(fmt::format(format, std::forward<Values>(values)...));
    else
      ++omitted_;
  }

  /// Adds the warnings about one of several files, with `subject` before each.
  void append(const Warnings& others, std::string_view subject) {
    for (const std::string& line : others.lines_) add("{}{}", subject, line);
    omitted_ += others.omitted_;
  }

  uint64_t size() const { return lines_.size() + omitted_; }

  /// All lines; the last one has the number of omitted warnings.
  std::vector<std::string> take() && {
    if (omitted_ > 0) lines_.push_back(fmt::format("... and {} more", omitted_));
    return std::move(lines_);
  }

 private:
  std::vector<std::string> lines_;
  uint64_t omitted_ = 0;
};

}  // namespace weightfs
