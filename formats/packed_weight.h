// What the nodes of a graph state of a tensor of quantised weights, whose shape and type do not show it.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace weightfs {

/// A tensor of weights, or one that belongs to such a tensor.
struct PackedWeight {
  bool is_companion = false;         ///< scales or zero points of weights; it has no other fields
  std::optional<uint64_t> elements;  ///< logical ones; nothing if the node does not state enough
  uint32_t bits = 0;                 ///< of an element, if several are in a stored one; else 0
  uint32_t group_size = 0;           ///< elements that share a scale; 0 if it is not stated
  std::string_view method;           ///< a literal: "MatMulNBits"; empty if elements are not packed
};

}  // namespace weightfs
