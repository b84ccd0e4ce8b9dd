// Packed weights: which tensors belong together, and how many elements a packed tensor has.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "formats/summary/counts.h"
#include "formats/summary/fields.h"
#include "formats/tensor_list.h"

namespace weightfs::summary {

/// How the modules of a model are packed, as far as their tensors show it.
struct Packing {
  enum class Method : uint8_t {
    none,
    gptq,
    awq,
    bnb_4bit,
    bnb_8bit,
    mlx,
    packed,  ///< compressed-tensors: weight_packed
    scaled,  ///< a weight of 8 bits with scales: fp8, compressed-tensors
    nvfp4,
    mxfp4,
    hqq,
    exl2,
    exl3,
    codebook,  ///< aqlm, vptq, quip: the number of elements is not known
    bitnet,
    flattened,  ///< quanto, torchao
    onnx        ///< MatMulNBits
  };
  Method method = Method::none;  ///< of most elements
  Number bits, group_size;       ///< by the shapes of the tensors
  bool is_fp4 = false;           ///< of bitsandbytes: else NF4
  bool is_float8 = false;        ///< the weight of a scaled module
  bool is_complete = true;       ///< the number of elements of every packed tensor is known
};

struct Roles {
  std::vector<Counted> tensors;
  Packing packing;
  std::vector<std::string> warnings;
};

/// Sets role and elements of the tensors of packed modules. A module is packed if its companions exist; the
/// configuration only decides what shapes leave open. `roles` has the other tensors' values already.
void count_packed(const TensorList& tensors, const Fields& config, const Fields& quantisation, Roles& roles);

/// The number of bits of an element of a plain type; nothing for a type with blocks.
Number bits_of(const DType& dtype);

}  // namespace weightfs::summary
