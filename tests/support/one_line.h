// Checks of messages and file names.
#pragma once

#include <algorithm>
#include <string_view>

#include "base/text.h"
#include "fs/names.h"

namespace weightfs::test {

/// Whether `message` is printable: one line of UTF-8 without control bytes.
inline bool is_one_line(std::string_view message) {
  const auto control = [](char c) { return static_cast<uint8_t>(c) < 0x20 || c == 0x7F; };
  return !message.empty() && is_utf8(message) && std::none_of(message.begin(), message.end(), control);
}

/// Whether `name` is a valid file name without special bytes.
inline bool is_file_name(std::string_view name) {
  return is_one_line(name) && name != "." && name != ".." && name.size() <= kMaxComponentLength &&
         name.find('/') == name.npos;
}

}  // namespace weightfs::test
