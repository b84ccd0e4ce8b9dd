// The counted requests of the kernel.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace weightfs::fuse {

enum class Operation : uint8_t {
  lookup,
  getattr,
  readlink,
  open,
  read,
  release,
  readdirplus,
  statfs,
  getxattr,
  listxattr,
};

inline constexpr std::array<std::string_view, 10> kOperationNames = {
    "lookup", "getattr", "readlink", "open", "read", "release", "readdirplus", "statfs", "getxattr", "listxattr"};

}  // namespace weightfs::fuse
