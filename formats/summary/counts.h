// The role of each tensor, and how many parameters it stands for: a packed tensor has more than elements.
#pragma once

#include <cstdint>

namespace weightfs::summary {

enum class Role : uint8_t {
  parameter,  ///< its logical elements count
  companion,  ///< scales, zero points and such of a packed parameter: only its bytes count
  buffer,     ///< masks, running means, frequencies: counted apart
  state,      ///< of an optimizer or a trainer: counted apart
  duplicate   ///< the same matrix under a second name: not counted
};

struct Counted {
  Role role = Role::parameter;
  uint64_t elements = 0;  ///< logical elements
  bool is_known = true;   ///< else the parameter has an unknown number of elements, which is 0 here
};

}  // namespace weightfs::summary
