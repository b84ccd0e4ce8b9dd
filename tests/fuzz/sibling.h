// How one input holds a container and what lies beside it.
#pragma once

#include <string_view>

namespace weightfs::test {

/// The container comes first, then this line, then the bytes of whatever sibling is opened. Without it, a sibling has
/// the container's own bytes.
inline constexpr std::string_view kSibling = "\n~~~ sibling ~~~\n";

}  // namespace weightfs::test
