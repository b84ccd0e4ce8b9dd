// The exit statuses of weightfs: one table, printed by `weightfs help exit-status`, and listed in the manual page.
#pragma once

#include "base/result.h"

namespace weightfs {

enum class Exit {
  ok = 0,
  io = 1,           ///< a system call failed, the disk, the cache or memory is too small, or any error not listed below
  usage = 2,        ///< an invalid option or argument
  not_found = 3,    ///< a source or path was not found
  unsupported = 4,  ///< an unsupported format, or access forbidden
  corrupt = 5,      ///< a corrupt container, or a refused tensor
  mount = 6,        ///< mounting or unmounting failed, or a mount is not serving
  mismatch = 7,     ///< data does not match its digest
  unavailable = 8,  ///< the network or a server is temporarily unavailable
};

/// The exit status of a failure.
constexpr Exit exit_of(Code code) {
  switch (code) {
    case Code::not_found:
    case Code::absent:
      return Exit::not_found;
    case Code::corrupt:
      return Exit::corrupt;
    case Code::unsupported:
    case Code::forbidden:
      return Exit::unsupported;
    case Code::mismatch:
      return Exit::mismatch;
    case Code::network:
    case Code::unreachable:
      return Exit::unavailable;
    case Code::resource:
    case Code::io:
    case Code::stale:
      return Exit::io;
  }
  return Exit::io;
}

/// The exit statuses of `weightfs diff`, as of diff(1): equal is ok.
inline constexpr Exit kDifferent{1};
inline constexpr Exit kTrouble{2};

inline constexpr const char* kExitStatuses =
    "Exit status:\n"
    "  0  success; the model is complete\n"
    "  1  a system call failed; disk, cache or memory is too small; an output exists\n"
    "  2  an invalid option or argument\n"
    "  3  a source, a path or a file of the model was not found\n"
    "  4  an unsupported format, or access refused by a rule or a server\n"
    "  5  a corrupt or cut container, or a refused tensor\n"
    "  6  mounting or unmounting failed; nothing is mounted there, or is not serving\n"
    "  7  data does not match its digest\n"
    "  8  the network or a server is temporarily unavailable, or --offline\n"
    "weightfs diff: 0 equal, 1 different, 2 not compared completely\n";

}  // namespace weightfs
