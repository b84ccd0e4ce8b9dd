// Why the kernel does not read an open file by itself (FUSE passthrough, Linux 6.9): all reasons, in one place.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace weightfs {

enum class NoPassthrough {
  not_local,     ///< the bytes are decoded, downloaded or computed
  part_of_file,  ///< they are a range of a local file, as a tensor is
  writable,      ///< the local file could be changed by a user
  not_cached,
  not_verified,  ///< not cached, or not verified yet
  evicted,       ///< the cached file was evicted, or is a temporary one
  not_compared,  ///< blocks of the cached file were not compared with their checksums yet
  not_mounted,   ///< the mount has not replied to INIT yet
  no_kernel_support,
  needs_root,
  off  ///< --passthrough=off
};

/// As shown in .weightfs/status.json and counted in stats.json: "part of a larger file".
constexpr std::string_view to_text(NoPassthrough reason) {
  switch (reason) {
    case NoPassthrough::not_local:
      return "not a local file";
    case NoPassthrough::part_of_file:
      return "part of a larger file";
    case NoPassthrough::writable:
      return "file is writable";
    case NoPassthrough::not_cached:
      return "not cached";
    case NoPassthrough::not_verified:
      return "not cached or not verified yet";
    case NoPassthrough::evicted:
      return "not in the cache";
    case NoPassthrough::not_compared:
      return "not all blocks are compared yet";
    case NoPassthrough::not_mounted:
      return "not mounted yet";
    case NoPassthrough::no_kernel_support:
      return "kernel without passthrough";
    case NoPassthrough::needs_root:
      return "needs root";
    case NoPassthrough::off:
      return "--passthrough=off";
  }
  return "";
}

/// An error of Code::unsupported with that text.
inline tl::unexpected<Error> failure(NoPassthrough reason) {
  return failure(Code::unsupported, std::string(to_text(reason)));
}

}  // namespace weightfs
