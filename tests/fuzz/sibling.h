// The format of an input with a container and the files beside it.
#pragma once

#include <string_view>

namespace weightfs::test {

/// The container comes first, then this line, then the bytes of every opened sibling. Without the line, a sibling has
/// the container's own bytes.
inline constexpr std::string_view kSibling = "\n~~~ sibling ~~~\n";

/// A line with this beginning and end is followed by the bytes of one file beside the container, whose name is in
/// between.
inline constexpr std::string_view kFile = "\n~~~ file ";
inline constexpr std::string_view kEndOfLine = " ~~~\n";

}  // namespace weightfs::test
