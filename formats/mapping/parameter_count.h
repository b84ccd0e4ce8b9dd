// The number of a model's parameters as general.size_label of a GGUF states it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "formats/tensor_list.h"

namespace weightfs::mapping {

/// Counts the tensors of a GGUF, generated ones included.
class ParameterCount {
 public:
  /// `name` and `shape` are those of the GGUF; the outermost dimension is first.
  void add(std::string_view name, ShapeView shape);

  uint64_t total() const { return shared_ + in_experts_; }

  /// "8.0B", or "8x7B" for a model with experts: their number and what is used with one of them. Empty if there are no
  /// parameters.
  std::string label() const;

 private:
  uint64_t shared_ = 0;
  uint64_t in_experts_ = 0;
  uint64_t in_one_expert_ = 0;
  uint64_t experts_ = 0;  // sum over the tensors with experts
  uint64_t tensors_with_experts_ = 0;
};

}  // namespace weightfs::mapping
