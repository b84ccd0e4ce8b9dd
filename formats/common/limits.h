// Limits that several formats share.
#pragma once

#include <cstddef>
#include <cstdint>

namespace weightfs {

/// The maximum length of a name in a container, in bytes: the limit of extended attributes and of GGUF's specification.
inline constexpr size_t kMaxNameLength = 65'535;

/// The maximum size of a tensor that repeats the elements of a smaller storage, in bytes: programs that read all files
/// must get to an end. Real ones repeat a mask, a position or a zero, and stay far below.
inline constexpr uint64_t kMaxExpanded = uint64_t{1} << 30;

}  // namespace weightfs
