// Parts of the messages of exchanges.
#pragma once

#include <fmt/core.h>

#include <cctype>
#include <chrono>
#include <string>

#include "base/text.h"

namespace weightfs::http {

/// A message of a library or the system, to follow a colon.
inline std::string uncapitalized(std::string text) {
  if (text.size() > 1 && std::islower(static_cast<unsigned char>(text[1])) != 0)
    text[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(text[0])));
  return printable(text);
}

/// "30 s", "1500 ms"
inline std::string human_time(std::chrono::milliseconds time) {
  return time.count() % 1000 == 0 ? fmt::format("{} s", time.count() / 1000) : fmt::format("{} ms", time.count());
}

}  // namespace weightfs::http
