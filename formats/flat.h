// What safetensors and BinTensors have in common: a header that lists tensors, one buffer that these cover without a
// hole from its first byte to its last, and a map of texts that the writer put beside them.
#pragma once

#include <string>
#include <vector>

#include "formats/format.h"

namespace weightfs {

/// Where a tensor claims to lie in the buffer.
struct Range {
  uint64_t begin;
  uint64_t end;
};

/// What a header says, before it is believed.
struct FlatHeader {
  std::vector<Tensor> tensors;  ///< without their bytes
  std::vector<Range> ranges;    ///< of the tensor at the same place in `tensors`
  Map metadata;                 ///< what the writer put beside the tensors
};

/// The places, ascending, of the tensors whose name a later one has too.
std::vector<size_t> repeated_names(const std::vector<Tensor>& tensors);

/// In which order the tensors must lie in the buffer.
enum class Order { any, as_listed };

/// Gives each tensor its bytes in `whole`, whose buffer begins at `buffer` and ends with it. Fails with corrupt unless
/// the tensors lie one after the other from the first byte of the buffer to its last, each with as many bytes as its
/// shape and dtype take.
Result<void> place(FlatHeader& header, const SourcePtr& whole, uint64_t buffer, Order order);

/// The model of a header whose tensors have been placed; `facts` about the container go under the format's name.
Model flat_model(FlatHeader header, const Container& container, std::string format, Map facts);

}  // namespace weightfs
