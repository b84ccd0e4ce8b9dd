// Limits that several formats share.
#pragma once

#include <cstddef>

namespace weightfs {

/// The maximum length of a name in a container, in bytes: the limit of extended attributes and of GGUF's specification.
inline constexpr size_t kMaxNameLength = 65'535;

}  // namespace weightfs
