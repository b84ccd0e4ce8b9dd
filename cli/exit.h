// The exit statuses of weightfs: one table, printed by --help and told by the manual page.
#pragma once

#include "base/result.h"

namespace weightfs {

enum class Exit {
  ok = 0,
  io = 1,           ///< the system refused, or anything not named below
  usage = 2,        ///< an option or argument is wrong
  not_found = 3,    ///< a source or path does not exist
  unsupported = 4,  ///< not a model that weightfs knows
  corrupt = 5,      ///< a broken container, or a tensor that was refused
  mount = 6,        ///< cannot mount or unmount
  mismatch = 7,     ///< bytes that do not match their digest
  unavailable = 8,  ///< cannot be had now
};

/// The exit status of a failure.
constexpr Exit exit_of(Code code) {
  switch (code) {
    case Code::not_found:
      return Exit::not_found;
    case Code::corrupt:
      return Exit::corrupt;
    case Code::unsupported:
      return Exit::unsupported;
    case Code::mismatch:
      return Exit::mismatch;
    case Code::resource:
    case Code::network:
      return Exit::unavailable;
    case Code::io:
      return Exit::io;
  }
  return Exit::io;
}

inline constexpr const char* kExitStatuses =
    "Exit status:\n"
    "  0  success\n"
    "  1  the system refused something (reading, writing)\n"
    "  2  a wrong option or argument\n"
    "  3  a source or a path in it does not exist\n"
    "  4  not a model that weightfs knows; what a rule forbids, or a registry denies\n"
    "  5  a broken container, or a tensor that was refused\n"
    "  6  cannot mount or unmount\n"
    "  7  bytes that do not match their digest\n"
    "  8  cannot be had now (no network, or --offline); trying again may help\n";

}  // namespace weightfs
