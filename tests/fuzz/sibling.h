// How one input holds a container and what lies beside it.
#pragma once

#include <string_view>

namespace weightfs::test {

/// The container comes first, then this line, then the bytes of whatever sibling is opened. Without it, a sibling has
/// the container's own bytes.
inline constexpr std::string_view kSibling = "\n~~~ sibling ~~~\n";

/// A line that begins and ends so is followed by the bytes of one file beside the container; between the two stands
/// what it is called.
inline constexpr std::string_view kFile = "\n~~~ file ";
inline constexpr std::string_view kEndOfLine = " ~~~\n";

}  // namespace weightfs::test
